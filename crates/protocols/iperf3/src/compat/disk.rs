//! iperf3's lines about a file of sent or received payload (`-F`).

use super::units::amount;
use metrics::{Clamped, real};
use serde_json::{Value, json};

/// A file of sent or received payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskFile {
    /// Its name, as it was given.
    pub(crate) name: String,
    /// Its length in the beginning, bytes.
    pub(crate) size: Option<u64>,
}

impl DiskFile {
    /// Its length: a receiver's is the received one.
    fn size(&self, received: u64, sender: bool) -> u64 {
        self.size.filter(|_| sender).unwrap_or(received)
    }

    pub(super) fn json(&self, sent: u64, received: u64, sender: bool) -> Value {
        let size = self.size(received, sender);
        json!({
            "sent": sent,
            "received": received,
            "size": size,
            "percent_sent": percent(sent, size),
            "percent_received": percent(received, size),
            "filename": self.name,
        })
    }

    /// The line of a stream after `bytes` bytes.
    pub(super) fn line(&self, bytes: u64, sender: bool) -> String {
        let size = self.size(bytes, sender);
        let (moved, all) = (amount(real(bytes), 'A'), amount(real(size), 'A'));
        format!("        Sent {moved} / {all} ({}%) of {}\n", percent(bytes, size), self.name)
    }
}

/// Whole percent; all of nothing.
fn percent(part: u64, size: u64) -> u64 {
    (u128::from(part) * 100).checked_div(size.into()).map_or(100, u64::clamped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_the_original_tells_it() {
        let file = DiskFile { name: "f".into(), size: Some(2 << 20) };
        // The line of iperf 3.12, with other numbers.
        assert_eq!(file.line(1 << 20, true), "        Sent 1.00 MBytes / 2.00 MBytes (50%) of f\n");
        assert_eq!(file.line(1 << 20, false), "        Sent 1.00 MBytes / 1.00 MBytes (100%) of f\n");
        let told = file.json(10, 5, true);
        assert!(told["percent_sent"] == 0 && told["size"] == 2 << 20 && told["received"] == 5, "{told}");
        assert_eq!(percent(0, 0), 100);
    }
}
