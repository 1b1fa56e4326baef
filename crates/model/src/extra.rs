//! What only one protocol has to say.

use crate::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A value of JSON that the crate of one protocol writes and reads. Everything else passes it on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Extra {
    /// The protocol, as `--protocol` names it.
    pub protocol: String,
    /// The value.
    pub value: Box<RawValue>,
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.value.get() == other.value.get()
    }
}

impl Extra {
    /// `value` of `protocol`; `null` in place of what JSON cannot hold.
    pub fn new(protocol: &str, value: &impl Serialize) -> Extra {
        let value = to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Extra { protocol: protocol.to_owned(), value }
    }

    /// The value, if it is one of `protocol` and such a `T`.
    #[must_use]
    pub fn read<T: DeserializeOwned>(&self, protocol: &str) -> Option<T> {
        let json = Some(self.value.get()).filter(|_| self.protocol == protocol)?;
        serde_json::from_str(json).ok()
    }
}

impl Event {
    /// An event with an [`Extra`].
    pub fn extra(protocol: &str, value: &impl Serialize) -> Event {
        Event::Extra(Extra::new(protocol, value))
    }

    /// The value of an event with an [`Extra`] of `protocol`.
    #[must_use]
    pub fn extra_of<T: DeserializeOwned>(&self, protocol: &str) -> Option<T> {
        if let Event::Extra(extra) = self { extra.read(protocol) } else { None }
    }
}
