//! The desktop app.

fn main() -> anyhow::Result<()> {
    transom_app::run()
}
