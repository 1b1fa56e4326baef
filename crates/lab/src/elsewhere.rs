//! Where there are no network namespaces: a lab that cannot be built.

use crate::setup::Setup;
use crate::{Ended, LabError, Side};
use std::process::Command;
use std::time::Duration;

/// A lab; there is none on this system.
#[derive(Debug)]
pub struct Lab(std::convert::Infallible);

impl Lab {
    /// Fails.
    pub fn new(_: Setup) -> Result<Lab, LabError> {
        Err(LabError::NoLinux)
    }

    /// Never called.
    pub fn begin(&self) {
        match self.0 {}
    }

    /// Never called.
    pub fn settle(&self, _: Duration) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn within<T: Send>(
        &self,
        _: Side,
        _: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> std::io::Result<T> {
        match self.0 {}
    }

    /// Never called.
    pub fn enter(&self, _: Side, _: &mut Command) -> std::io::Result<()> {
        match self.0 {}
    }

    /// Never called.
    pub fn finish(self) -> Result<Ended, LabError> {
        match self.0 {}
    }
}
