//! STAMP packets, as a reflector and as a sender take them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metrics::{Clock, Mono};
use common::Psk;
use stamp::codec::{Mode, Reply};
use stamp::reflect::{Arrived, Rules, Session, admit, check, reply};
use stamp::tlv;

fuzz_target!(|bytes: &[u8]| {
    let key = Psk::new(b"twelve bytes").ok();
    for (mode, key) in [(Mode::Open, None), (Mode::Sealed, key)] {
        let rules = Rules { key, unconfirmed: true };
        let mut session = Session::default();
        if let Some(request) = check(&rules, bytes) {
            let got = Arrived { bytes, at: Mono(5), ttl: 64, tos: 0xb9 };
            assert!(admit(&rules, &mut session, &request, got.at));
            let mut out = vec![0; bytes.len()];
            reply(&rules, Some(&mut session), (&request, &got), (Mono(9), &Clock::default()), &mut out);
        }
        let _ = Reply::decode(mode, bytes);
        if let Some((number, units)) = bytes.split_first_chunk() {
            let _ = tlv::decode(mode, rules.key.as_ref(), number, units);
        }
    }
});
