//! iperf3's documents and datagrams: the first byte says how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use iperf3::codec::{Header, Inbox, LONGEST_RESULTS};
use iperf3::{params, results};

fuzz_target!(|bytes: &[u8]| {
    let Some((&split, bytes)) = bytes.split_first() else { return };
    let _ = (Header::read(bytes, false), Header::read(bytes, true));
    let mut inbox = Inbox::default();
    for chunk in bytes.chunks(usize::from(split) + 1) {
        inbox.push(chunk);
        loop {
            match inbox.document(LONGEST_RESULTS) {
                Ok(Some(text)) => {
                    if let Ok(parameters) = params::read(&text) {
                        let _ = params::write(&parameters);
                    }
                    if let Ok(results) = results::read(&text, 256) {
                        let _ = results::write(&results);
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
