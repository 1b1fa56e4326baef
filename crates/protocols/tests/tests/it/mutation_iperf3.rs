//! Mutated documents and datagrams of iperf3: none may panic, and what is accepted is within
//! bounds.

use crate::support::bench::{inputs, mutate};
use iperf3::codec::{Header, Inbox, LONGEST_PARAMETERS, framed};
use iperf3::{params, results};
use transport::Rng;

// Cut from captures of iperf 3.21 (control connection, TCP) and 3.1.7 (UDP).
const PARAMETERS: [&str; 2] = [
    r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":8000,"bandwidth":2000000,"pacing_timer":1000,"client_version":"3.21+"}"#,
    r#"{"udp":true,"omit":0,"time":1,"parallel":1,"len":1000,"bandwidth":200000,"client_version":"3.1.7"}"#,
];
const RESULTS: &str = r#"{"cpu_util_total":0.24,"cpu_util_user":0,"cpu_util_system":0.24,"sender_has_retransmits":1,"congestion_used":"bbr","streams":[{"id":1,"bytes":256000,"retransmits":0,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":1.000735}]}"#;

#[test]
fn documents() {
    let mut rng = Rng::new(31);
    let (mut asked, mut told) = (0, 0);
    for n in 0..inputs() {
        let source = if n % 3 == 0 { RESULTS } else { PARAMETERS[(n % 2) as usize] };
        let mut bytes = framed(source);
        mutate(&mut rng, &mut bytes);
        let mut inbox = Inbox::default();
        let cut = rng.between(0, bytes.len() as u64) as usize;
        inbox.push(&bytes[..cut]);
        let early = inbox.document(LONGEST_PARAMETERS);
        inbox.push(&bytes[cut..]);
        let text = match early {
            Ok(None) => inbox.document(LONGEST_PARAMETERS),
            other => other,
        };
        let Ok(Some(text)) = text else { continue };
        assert!(text.len() <= LONGEST_PARAMETERS);
        if let Ok(parameters) = params::read(&text) {
            asked += 1;
            assert_eq!(params::check(&parameters.terms), Ok(()));
            assert!((1..=256).contains(&parameters.terms.all_streams()));
            assert!(parameters.terms.block >= 1 && parameters.terms.block <= 1 << 20);
            // What was understood can be said again.
            assert_eq!(params::read(&params::write(&parameters)).as_ref(), Ok(&parameters));
        }
        if let Ok(results) = results::read(&text, 1) {
            told += 1;
            assert!(results.lines.len() <= 1);
            assert!(results.lines.iter().all(|line| line.row.slot == 0));
            results::read(&results::write(&results), 1).expect("what was understood can be said again");
        }
    }
    assert!(
        asked > inputs() / 1_000 && told > inputs() / 1_000,
        "{asked} {told}: hardly anything was understood"
    );
}

#[test]
fn bytes_and_datagrams() {
    let mut rng = Rng::new(33);
    for _ in 0..inputs() {
        let mut bytes: Vec<u8> = (0..rng.between(0, 40)).map(|_| rng.next() as u8).collect();
        mutate(&mut rng, &mut bytes);
        for wide in [false, true] {
            // More than a second of microseconds is carried, and may then not fit.
            let fits = |header: &Header| header.sent_us / 1_000_000 <= u64::from(u32::MAX);
            if let Some(header) = Header::read(&bytes, wide).filter(fits) {
                let mut again = bytes.clone();
                header.write(&mut again, wide);
                assert_eq!(Header::read(&again, wide), Some(header));
            }
        }
        let mut inbox = Inbox::default();
        inbox.push(&bytes);
        assert_eq!(std::iter::from_fn(|| inbox.byte()).collect::<Vec<_>>(), bytes);
    }
}
