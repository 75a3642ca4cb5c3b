//! Writes a picture of every state of the gallery, and of the real app, into `docs/screenshots`.

#[cfg(target_os = "linux")]
fn main() {}

#[cfg(not(target_os = "linux"))]
fn main() {}
