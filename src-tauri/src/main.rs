//! The desktop app.

fn main() -> anyhow::Result<()> {
    tauri::Builder::default().run(tauri::generate_context!())?;
    Ok(())
}
