//! Stand-in for sending in a build without the feature `http`.

use crate::answer::Answer;
use crate::delivery::Stop;
use crate::{Entry, Receiver, Secret};
use std::time::Duration;

/// A client that cannot be made.
pub(crate) enum Client {}

impl Client {
    /// Makes no client.
    pub(crate) fn new(_: &Receiver, _: Option<&Secret>, _: &str) -> Result<Client, String> {
        Err("this netcaliper was built without sending results (cargo build --release --features export)"
            .to_owned())
    }

    pub(crate) fn post(&self, _: &Entry, _: Duration, _: Stop<'_>) -> Answer {
        match *self {}
    }
}
