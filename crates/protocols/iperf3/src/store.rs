//! Payload from a file, or into one (`-F`).

use std::fmt::Debug;
use std::sync::Arc;

/// A file of sent or received payload. Workers call it and wait for the disk: the user asked for
/// that.
pub trait Store: Debug + Send + Sync {
    /// Length of the file, bytes.
    fn size(&self) -> u64;

    /// Fills `into` with what stands at `at`.
    ///
    /// # Errors
    /// When it cannot all be read: why, in words.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), String>;

    /// Puts `bytes` at `at`.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), String>;
}

/// Opens the file for one test: to be sent when asked with true, else to be filled anew.
pub type Opening = Arc<dyn Fn(bool) -> Result<Arc<dyn Store>, String> + Send + Sync>;
