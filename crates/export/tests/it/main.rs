//! Delivery to receivers that behave badly, over real sockets.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod otlp;
mod server;

use export::{Delivery, Exporter, Reading, Receiver, Secret};
use metrics::Wall;
use report::MetricsSheet;
use server::{Script, Server};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Longer than any answer takes on a busy host.
const LONG: Duration = Duration::from_secs(60);
/// For receivers that do not answer: the attempt ends with the limit.
const SHORT: Duration = Duration::from_millis(300);

/// A folder for spools, gone when dropped.
struct Root(PathBuf);

impl Root {
    fn new() -> Root {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Root(std::env::temp_dir().join(format!("netcaliper-export-it-{}-{n}", std::process::id())))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn reading(value: f64) -> Reading {
    let mut sheet = MetricsSheet::default();
    let labels =
        vec![("verb", "tcp".to_owned()), ("target", "lab 2,b=c".to_owned()), ("direction", "up".to_owned())];
    sheet.gauge("netcaliper_goodput_bytes_per_second", "Payload that arrived.", &labels, Some(value));
    let group = vec![("verb", "tcp".to_owned()), ("target", "lab 2,b=c".to_owned())];
    Reading {
        sheet,
        at: Wall(1_700_000_000_000_000_001),
        group,
        host: "probe".to_owned(),
        version: "0.0.0".to_owned(),
    }
}

fn exporter(root: &Root, url: &str, secret: Option<&str>) -> Exporter {
    let secret = secret.map(|text| Secret::parse(text).unwrap());
    Exporter::new(&root.0, vec![(Receiver::parse(url).unwrap(), secret)], "0.0.0").unwrap()
}

fn influx(server: &Server) -> String {
    format!("influx+http://{}?bucket=b&org=o", server.address)
}

/// Delivers one reading to a receiver that follows `script`.
fn delivered(root: &Root, server: &Server, limit: Duration) -> Delivery {
    exporter(root, &influx(server), Some("secret"))
        .deliver(&reading(1.0), Wall(1), limit, &|| false)
        .remove(0)
}

#[test]
fn each_kind_sends_its_request_with_its_secret() {
    for (scheme, rest, first, header, kind) in [
        ("otlp", "", "POST /v1/metrics HTTP/1.1", "authorization: Bearer secret", "application/json"),
        (
            "influx",
            "?bucket=b&org=o",
            "POST /api/v2/write?bucket=b&org=o&precision=ns HTTP/1.1",
            "authorization: Token secret",
            "text/plain",
        ),
        (
            "pushgateway",
            "/job/a",
            "PUT /metrics/job/a/verb@base64/dGNw/target@base64/bGFiIDIsYj1j HTTP/1.1",
            "authorization: Bearer secret",
            "text/plain; version=0.0.4",
        ),
    ] {
        let (root, server) = (Root::new(), Server::start([]));
        let url = format!("{scheme}+http://{}{rest}", server.address);
        let exporter = exporter(&root, &url, Some("secret"));
        let delivery = exporter.deliver(&reading(1.0), Wall(1), LONG, &|| false).remove(0);
        assert_eq!((delivery.sent, delivery.sentence()), (1, None), "{url}");
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(first), "{head}");
        assert!(head.contains(header) && head.contains(kind), "{head}");
        assert!(body.contains("netcaliper_goodput_bytes_per_second"), "{body}");
    }
}

#[test]
fn errors_of_the_server_are_tried_again() {
    let (root, server) = (Root::new(), Server::start([Script::Status(500, ""), Script::Status(503, "")]));
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.waiting, delivery.sentence()), (1, 0, None));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_receiver_that_closes_early_is_tried_again() {
    let (root, server) = (Root::new(), Server::start([Script::Close, Script::CloseMidway]));
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.sentence()), (1, None));
}

#[test]
fn a_wrong_token_is_not_tried_again_and_a_right_one_sends_what_waits() {
    let (root, server) = (Root::new(), Server::start([Script::Status(401, "unauthorized access")]));
    let delivery = delivered(&root, &server, LONG);
    let said = delivery.sentence().unwrap();
    assert!(said.contains("1 result") && said.contains("401: unauthorized access"), "{said}");
    assert!(said.contains("NETCALIPER_EXPORT_TOKEN") && !said.contains("secret"), "{said}");
    assert_eq!((server.requests().len(), delivery.waiting), (1, 1));
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.waiting, delivery.sentence()), (2, 0, None));
}

#[test]
fn a_redirect_is_not_followed() {
    let (root, server) = (Root::new(), Server::start([Script::Redirect]));
    let delivery = delivered(&root, &server, LONG);
    let said = delivery.sentence().unwrap();
    assert!(said.contains("redirects to http://elsewhere.example/"), "{said}");
    assert_eq!((delivery.waiting, server.requests().len()), (1, 1));
}

#[test]
fn an_endless_answer_is_cut_off() {
    // The status decides, and little of the body is read: the server cannot write all of it.
    let (root, server) = (Root::new(), Server::start([Script::Endless(200), Script::Endless(400)]));
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.waiting), (1, 0), "{delivery:?}");
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.given_up), (0, 1), "{delivery:?}");
    assert!(delivery.sentence().unwrap().len() < 400);
    let written = server.written.load(Ordering::Relaxed);
    assert!(written < 100 << 20, "the server could write {written} bytes");
}

#[test]
fn a_receiver_that_never_answers_costs_the_limit_and_no_result() {
    for script in [Script::Silent, Script::HalfAHead] {
        let (root, server) = (Root::new(), Server::start([script]));
        let delivery = delivered(&root, &server, SHORT);
        assert_eq!((delivery.sent, delivery.waiting), (0, 1), "{delivery:?}");
        assert!(delivery.sentence().unwrap().contains("1 result"), "{delivery:?}");
        let delivery = delivered(&root, &server, LONG);
        assert_eq!((delivery.sent, delivery.waiting), (2, 0), "{delivery:?}");
    }
}

#[test]
fn a_wish_to_end_is_heeded_during_an_attempt() {
    let (root, server) = (Root::new(), Server::start([Script::Silent]));
    let ended = AtomicBool::new(false);
    // The request has arrived, so that the attempt waits for its answer.
    let stop = || !server.seen().is_empty() || ended.load(Ordering::Relaxed);
    let exporter = exporter(&root, &influx(&server), None);
    let delivery = exporter.deliver(&reading(1.0), Wall(1), LONG * 60, &stop).remove(0);
    assert_eq!((delivery.sent, delivery.waiting), (0, 1));
}

#[test]
fn a_dead_receiver_is_no_business_of_another() {
    let (root, server) = (Root::new(), Server::start([]));
    // Nothing listens at a port that was free.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let receivers = [format!("otlp+http://{free}"), influx(&server)];
    let receivers = receivers.iter().map(|url| (Receiver::parse(url).unwrap(), None)).collect();
    let exporter = Exporter::new(&root.0, receivers, "0.0.0").unwrap();
    let all = exporter.deliver(&reading(1.0), Wall(1), SHORT, &|| false);
    assert_eq!(
        all.iter().map(|one| (one.sent, one.waiting)).collect::<Vec<_>>(),
        [(0, 1), (1, 0)],
        "{all:?}"
    );
    assert!(all[0].sentence().unwrap().contains("cannot connect to 127.0.0.1"), "{all:?}");
}

#[test]
fn a_partial_success_is_told_and_not_repeated() {
    let body = r#"{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"out of order"}}"#;
    let (root, server) = (Root::new(), Server::start([Script::Status(200, body)]));
    let delivery = delivered(&root, &server, LONG);
    assert_eq!((delivery.sent, delivery.waiting), (1, 0));
    assert!(delivery.sentence().unwrap().contains("left out 2 figures: out of order"), "{delivery:?}");
}

#[test]
fn no_secret_is_on_disk() {
    let (root, server) = (Root::new(), Server::start([Script::Status(401, "")]));
    assert_eq!(delivered(&root, &server, LONG).waiting, 1);
    let mut files = 0;
    for folder in std::fs::read_dir(&root.0).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(!text.contains("secret"), "{text}");
            files += 1;
        }
    }
    assert_eq!(files, 2, "an entry and the lock");
}
