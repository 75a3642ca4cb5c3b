//! A client of a supervisor that a test starts.

use super::*;

impl Client {
    /// Returns a client of the supervisor that `start` returns.
    pub(crate) fn of_supervisor(start: impl FnOnce() -> Handle) -> Self {
        let runtime = runtime().unwrap();
        let handle = {
            let _context = runtime.enter();
            start()
        };
        Self {
            interrupt: Interrupt::default(),
            runtime: OnceCell::from(runtime),
            data_folder: Ok(PathBuf::from("no data folder in tests")),
            connection: RefCell::new(Some(Connection::Running(handle))),
        }
    }

    /// Returns the client with files of its own in this folder.
    pub(crate) fn with_data_folder(mut self, folder: &Path) -> Self {
        self.data_folder = Ok(folder.to_owned());
        self
    }
}
