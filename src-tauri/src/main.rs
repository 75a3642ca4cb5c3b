//! The desktop app.

fn main() -> anyhow::Result<()> {
    transom_files::make_new_files_private();
    transom_app::run()
}
