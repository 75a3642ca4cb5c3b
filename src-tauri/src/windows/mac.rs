//! Windows on macOS: the chat is a popover of the menu bar, the quick prompt a panel that takes the
//! keyboard and leaves the other program active.
//!
//! Type-checked but never run on Linux, so it contains only calls and no decisions.

use tauri::utils::config::WindowEffectsConfig;
use tauri::window::{Effect, EffectState, EffectsBuilder};
use tauri::{AppHandle, Manager, TitleBarStyle, WebviewWindow, WebviewWindowBuilder, Wry};
use tauri_nspanel::objc2_app_kit::NSEvent;
use tauri_nspanel::{CollectionBehavior, ManagerExt, PanelLevel, StyleMask, WebviewWindowExt};

use crate::wire::Window;

type Builder<'a> = WebviewWindowBuilder<'a, Wry, AppHandle>;

/// Corner radius of system popovers in points.
const RADIUS: f64 = 12.0;

#[allow(unsafe_code)]
mod panel {
    //! The Objective-C class of the panel.
    tauri_nspanel::tauri_panel! {
        panel!(QuickPanel {
            config: {
                can_become_key_window: true,
                can_become_main_window: false,
                is_floating_panel: true
            }
        })
    }
}
use panel::QuickPanel;

pub(super) fn style(builder: Builder<'_>, window: Window) -> Builder<'_> {
    match window {
        Window::Chat => builder.transparent(true).effects(effects(Effect::Popover)),
        Window::Prompt => builder
            .transparent(true)
            .effects(effects(Effect::HudWindow)),
        Window::Settings => builder.title_bar_style(TitleBarStyle::Visible),
    }
}

fn effects(effect: Effect) -> WindowEffectsConfig {
    EffectsBuilder::new()
        .effect(effect)
        .state(EffectState::Active)
        .radius(RADIUS)
        .build()
}

/// Turns the chat and the quick prompt into panels: they appear over full-screen programs, on the
/// current Space, without bringing the rest of the app forward.
pub(super) fn configure(window: Window, built: &WebviewWindow) -> tauri::Result<()> {
    if window == Window::Settings {
        return Ok(());
    }
    let panel = built.to_panel::<QuickPanel<Wry>>()?;
    panel.set_level(PanelLevel::Floating.value());
    let over_everything = CollectionBehavior::new()
        .can_join_all_spaces()
        .full_screen_auxiliary();
    panel.set_collection_behavior(over_everything.value());
    let mask = StyleMask::empty().borderless().nonactivating_panel();
    let mask = match window {
        Window::Chat => mask.resizable(),
        Window::Prompt | Window::Settings => mask,
    };
    if let Err(error) = panel.set_style_mask(mask.value()) {
        tracing::warn!(?error, "a panel could not be made non-activating");
    }
    panel.set_hides_on_deactivate(false);
    Ok(())
}

pub(super) fn after_resize(_: Window, _: &WebviewWindow, _: tauri::Size) -> tauri::Result<()> {
    Ok(())
}

pub(in crate::windows) fn present(window: Window, built: &WebviewWindow) -> tauri::Result<()> {
    match built.app_handle().get_webview_panel(window.label()) {
        Ok(panel) => {
            panel.show_and_make_key();
            Ok(())
        }
        Err(_) => {
            built.show()?;
            built.set_focus()
        }
    }
}

pub(in crate::windows) fn put_away(window: Window, built: &WebviewWindow) -> tauri::Result<()> {
    match built.app_handle().get_webview_panel(window.label()) {
        Ok(panel) => {
            panel.hide();
            Ok(())
        }
        Err(_) => built.hide(),
    }
}

pub(in crate::windows) fn is_button_down(_: &WebviewWindow) -> bool {
    const MAIN: usize = 1;
    NSEvent::pressedMouseButtons() & MAIN != 0
}
