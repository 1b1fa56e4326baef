use super::*;
use common::auth::{hex, unhex};
use common::capacity::{Algorithm, RateSearch, RateTable, SearchSettings, TrialReport};

const CAPTURED: &str = include_str!("captured.txt");
const DECISIONS: &str = include_str!("decisions.txt");
const KEY: &[u8] = b"netcaliper-key";

fn bytes_of(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|two| unhex::<1>(std::str::from_utf8(two).unwrap()).unwrap()[0]).collect()
}

/// The captured PDU of this name in a test, and the second of its capture.
fn captured(test: &str, name: &str) -> (Vec<u8>, u64) {
    let line = CAPTURED.lines().find(|line| line.starts_with(&format!("{name} {test} "))).unwrap();
    let mut words = line.split(' ').skip(2);
    let at = words.next().unwrap().parse().unwrap();
    (bytes_of(words.next().unwrap()), at)
}

const TESTS: [(&str, bool, bool); 4] = [
    ("down-open", false, false),
    ("down-auth", false, true),
    ("up-open", true, false),
    ("up-auth", true, true),
];

#[test]
fn captured_control_pdus_are_read_and_written_alike() {
    for (test, up, auth) in TESTS {
        let (request, at) = captured(test, "setup_1");
        let setup = Setup::decode(&request).unwrap();
        assert_eq!(setup.encode()[..], request);
        assert_eq!((setup.version, setup.count, setup.answer, setup.code), (20, 1, false, 0));
        assert_eq!((setup.upstream, setup.modifiers, setup.seal.mode), (false, JUMBO, u8::from(auth)));
        let (response, _) = captured(test, "setup_2");
        let answer = Setup::decode(&response).unwrap();
        assert_eq!(answer.encode()[..], response);
        assert!(answer.answer && answer.code == setup_code::ACCEPTED && answer.port > 1024);
        assert_eq!(answer.test, setup.test);
        let (null, _) = captured(test, "null_1");
        assert_eq!(Null::decode(&null).unwrap().encode()[..], null);
        let (request, _) = captured(test, "activation_1");
        let activation = Activation::decode(&request).unwrap();
        assert_eq!(activation.encode()[..], request);
        assert_eq!(activation.upstream, up);
        assert_eq!(activation.parameters, Parameters { test_s: 5, ..Parameters::default() });
        let (response, _) = captured(test, "activation_2");
        let answer = Activation::decode(&response).unwrap();
        assert_eq!(answer.encode()[..], response);
        let first = if up { RateTable { jumbo: true, traditional: false }.row(0) } else { Row::default() };
        assert_eq!((answer.code, answer.row), (activation_code::ACCEPTED, first));
        if auth {
            let keys = Deriver::keys(KEY, setup.seal.time_s);
            assert_eq!(Setup::SEAL.verify(&captured(test, "setup_1").0, &keys.client, at), Ok(()));
            assert_eq!(Setup::SEAL.verify(&captured(test, "setup_2").0, &keys.server, at), Ok(()));
            assert_eq!(Null::SEAL.verify(&null, &keys.server, at), Ok(()));
            assert_eq!(Activation::SEAL.verify(&request, &keys.client, at), Ok(()));
            assert_eq!(Activation::SEAL.verify(&response, &keys.server, at + 5), Ok(()));
            assert_eq!(Activation::SEAL.verify(&response, &keys.server, at + 7), Err(Unsealed::Time));
            assert_eq!(Activation::SEAL.verify(&response, &keys.client, at), Err(Unsealed::Digest));
        }
    }
}

#[test]
fn captured_data_pdus_are_read() {
    for (test, up, auth) in TESTS {
        let (bytes, _) = captured(test, "load_2");
        let length = u16::from_be_bytes([bytes[8], bytes[9]]);
        let load = Load::decode(&bytes, length.into()).unwrap();
        assert_eq!(load.encode()[..], bytes[..LOAD]);
        assert_eq!((load.number, load.action, load.status_errors), (2, 0, 0));
        assert_eq!(Load::decode(&bytes, usize::from(length) - 1), None, "of another length than its own");
        let (first, _) = captured(test, "status_1");
        let status = Status::decode(&first, VERSION).unwrap();
        assert_eq!((status.number, status.finished, status.mode), (1, 0, u8::from(auth)));
        assert_eq!((status.trial.datagrams, status.trial.round_trip_ms), (1, None));
        assert_eq!(status.row == Row::default(), !up, "only a server chooses the row");
        let (later, _) = captured(test, "status_40");
        let status = Status::decode(&later, VERSION).unwrap();
        assert_eq!((status.number, status.finished), (40, 1));
        assert!((975..1_050).contains(&status.last.end_ms), "{status:?}");
        // All but the stale octets of the reference.
        assert_eq!(status.encode(VERSION)[..186], later[..186], "{test}");
    }
}

#[test]
fn the_captured_decisions_are_repeated() {
    let table = RateTable { jumbo: true, traditional: false };
    let (mut search, mut decisions) = (None, 0);
    for line in DECISIONS.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("test") {
            search = Some(RateSearch::new(SearchSettings::default(), 0, common::capacity::LAST));
            continue;
        }
        let (report, row) = line.split_once(" | ").unwrap();
        let words: Vec<Option<u32>> = report.split(' ').map(|word| word.parse().ok()).collect();
        let [lost, reordered, duplicated, sum, count] = [0, 1, 2, 3, 4].map(|n| words[n].unwrap());
        let report = TrialReport {
            lost,
            reordered,
            duplicated,
            one_way_ms: Spread { range: Some((0, 0)), sum, count }.mean(),
            round_trip_ms: words[5],
            ..TrialReport::default()
        };
        let chosen: Vec<u32> = row.split(' ').map(|word| word.parse().unwrap()).collect();
        let mut ours = [0; 28];
        put_row(&mut ours, 0, &table.row(search.as_mut().unwrap().advance(&report)));
        assert_eq!((0..7).map(|n| Fields(&ours).u32(4 * n)).collect::<Vec<_>>(), chosen, "{line}");
        decisions += 1;
    }
    assert_eq!(decisions, 172);
    assert_eq!(SearchSettings::default().algorithm, Algorithm::B);
}

/// Vectors computed from NIST SP 800-108 and RFC 2104 with another implementation (Python's hmac).
#[test]
fn keys_and_digests_are_those_of_the_specification() {
    let keys = Deriver::keys(b"firstkey", 1_760_973_720);
    assert_eq!(hex(&keys.client), "507e026118add6c590eaed5ccabebcfb1f291e8e46e370a888956c6b41237951");
    assert_eq!(hex(&keys.server), "b015bf9bffded70cd691aa34ec5dd016653bfbe94376a52443776e0ec3641a0f");
    let seal = Seal { mode: 1, key: 1, ..Seal::default() };
    let setup = Setup { version: 20, count: 1, test: 0x1234, modifiers: JUMBO, seal, ..Setup::default() };
    let mut bytes = setup.encode();
    Setup::SEAL.sign(&mut bytes, &keys.client, 1_760_973_720);
    let want = "ace10014000112340100000000000101 68f65398\
                84ddca450dae7339da605af1a5448e7deb33da0e9a33ce11293ebfcd9a3537c3 01000000";
    assert_eq!(hex(&bytes), want.replace(' ', ""));
    let sum = checksum(&bytes);
    assert_eq!(sum, 0x5f99);
    // With a checksum, which is made behind the digest, the PDU is accepted as well.
    put(&mut bytes, 54, sum.to_be_bytes());
    assert_eq!(Setup::SEAL.verify(&bytes, &keys.client, 1_760_973_720), Ok(()));
    assert_eq!(Setup::decode(&bytes).unwrap().test, 0x1234);
    bytes[7] ^= 1;
    assert_eq!(Setup::decode(&bytes), None);
    let mut null = Null { version: 20, seal }.encode();
    Null::SEAL.sign(&mut null, &keys.server, 1_760_973_720);
    let digest = "b9d449bf2baa7a2a408de11c775652fe57acd7a928c9cf9d03729ad47256fc90";
    assert_eq!(hex(&null[12..44]), digest);
    let activation = Activation {
        version: 20,
        upstream: false,
        code: 0,
        parameters: Parameters::default(),
        row: Row::default(),
        seal,
    };
    let mut bytes = activation.encode();
    Activation::SEAL.sign(&mut bytes, &keys.client, 1_760_973_720);
    let digest = "3936b17ecb0205b6e681f3e84b99c034043372dc7d0dc8104a69140058d4ce4a";
    assert_eq!((hex(&bytes[68..100]), checksum(&bytes)), (digest.to_owned(), 0xaa69));
    let open = Setup { seal: Seal::default(), ..setup };
    assert_eq!(checksum(&open.encode()), 0x3ed5);
}

#[test]
fn old_versions_have_shorter_pdus() {
    let parameters = Parameters { sub_interval_ms: 2_000, suppressed: 0, ..Parameters::default() };
    let activation = Activation {
        version: 11,
        upstream: true,
        code: 1,
        parameters,
        row: Row::default(),
        seal: Seal::default(),
    };
    let bytes = activation.encode();
    assert_eq!(Activation::decode(&bytes[..SHORT_ACTIVATION]), Some(activation));
    assert_eq!((bytes[14], Activation::decode(&bytes)), (2, None));
    let spread = Spread { range: Some((1, 9)), sum: 12, count: 3 };
    let status = Status {
        number: 7,
        finished: 2,
        last: SubInterval {
            datagrams: 3,
            bytes: 1 << 40,
            length_us: 1,
            lost: 2,
            reordered: 3,
            duplicated: 4,
            delay: spread,
            round_trip: Some((5, 6)),
            end_ms: 8,
        },
        trial: Trial {
            lost: 1,
            reordered: 2,
            duplicated: 3,
            delay: spread,
            round_trip_ms: Some(4),
            length_us: 5,
            datagrams: 6,
            bytes: 7,
            marked: 0,
        },
        delay_min_ms: -5,
        round_trip_min_ms: None,
        updated: true,
        sent: Moment { s: 3, ns: 4 },
        ..Status::default()
    };
    for version in [11, 19, 20] {
        let bytes = status.encode(version);
        let n = Status::length(version);
        assert_eq!(Status::decode(&bytes[..n], version), Some(status), "{version}");
        assert_eq!(Status::decode(&bytes[..n - 1], version), None);
    }
    // The places of a 64-bit count and of the times in the layout of old versions.
    let old = status.encode(11);
    assert_eq!(
        (Fields(&old).u32(48), Fields(&old).u32(160), Fields(&old).u32(116)),
        (1 << 8, 3, 0xffff_fffb)
    );
}

#[test]
fn means_are_rounded() {
    let mean = |sum, count| Spread { range: None, sum, count }.mean();
    assert_eq!((mean(0, 0), mean(5, 2), mean(4, 3), mean(5, 3)), (None, Some(3), Some(1), Some(2)));
}
