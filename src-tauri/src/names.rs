//! All commands that pages may call, by their file in `commands/`.
//!
//! Rule: this is the only list. The build script registers the names for the access rules in
//! `capabilities/`, the app handles them, and a test compares them with `ui/src/ipc/commands.ts`.

/// Calls the macro `$with` with `module: name, …;` for each file of commands.
macro_rules! commands {
    ($with:ident) => {
        $with! {
            conversations: conversations, open_conversation, set_conversation_settings, messages,
                rename_conversation, pin_conversation, archive_conversation, delete_conversation,
                restore_conversation, finish_deletion, delete_exchange, duplicate_conversation,
                copy_conversation, clear_history, discard_temporary, show_branch,
                export_conversation, import_conversations;
            turns: ask, route, regenerate, continue_answer, edit_message, edit_answer, summarize,
                set_summary, stop, follow, unfollow;
            models: models, choose_model, fit, model_offer, add_model, forget_model, remove_model, load_model,
                eject, pause;
            catalog: catalog, tiers, search_hub, hub_entry, install, downloads, change_download,
                hub_access, set_hub_token, set_hub_endpoint;
            benchmarks: benchmarks, run_benchmark, stop_benchmark, export_benchmark;
            api: follow_local_api, add_api_key, revoke_api_key, api_setups;
            updates: updates, check_for_update, download_update, install_update, cancel_update;
            app: status, settings, update_settings, set_hotkey, record_hotkey, capture_text,
                insert_text, attach_files, copy, open_link, about, licenses, save_diagnostics,
                open_data_folder, show_window, fit_prompt, zoom, print_page, hide_window,
                page_ready;
        }
    };
}

/// Returns only the names.
macro_rules! names {
    ($($file:ident: $($name:ident),+;)+) => { &[$($(stringify!($name)),+),+] };
}

/// The names of all commands.
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the build script includes this file as well"
)]
pub const COMMANDS: &[&str] = commands!(names);
