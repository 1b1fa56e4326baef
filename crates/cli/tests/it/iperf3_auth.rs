//! Credentials: our iperf3 server and client, with each other and with the real iperf3 where it is
//! installed.

use crate::support::files::Scratch;
use crate::support::iperf3;
use crate::support::peer::call;
use crate::support::{BIN, Done, Line, Proc, netcaliper, skip};
use std::process::Command;

// Where they come from is told in that test.
const PRIVATE: &str = include_str!("../../../protocols/iperf3/tests/auth/private.pem");
const PUBLIC: &str = include_str!("../../../protocols/iperf3/tests/auth/public.pem");
/// `printf '{mario}luigi' | sha256sum`
const USERS: &str = "# users\nmario,e17c7b5ad21cef3dde0309e7bc33c97686f3887405dd73457e7268cafd10131b\n";

/// Keys and users in files of their own.
struct Keys(Scratch);

impl Keys {
    fn new() -> Keys {
        let scratch = Scratch::new();
        scratch.with("private.pem", PRIVATE);
        scratch.with("public.pem", PUBLIC);
        scratch.with("users.csv", USERS);
        Keys(scratch)
    }

    /// A server that has them.
    fn server(&self, line: Line, words: &str) -> Line {
        let line = line.arg("--rsa-private-key-path").arg(self.0.file("private.pem"));
        line.arg("--authorized-users-path").arg(self.0.file("users.csv")).args(words)
    }

    /// A client of ours.
    fn client(&self, port: &str, password: Option<&str>, words: &str) -> Done {
        self.run(netcaliper("iperf3"), port, password, words)
    }

    fn run(&self, program: Line, port: &str, password: Option<&str>, words: &str) -> Done {
        let mut line = program.args(&format!("-c 127.0.0.1 -p {port} -n 64K -l 8K {words}"));
        if let Some(password) = password {
            line = line.args("--username mario --rsa-public-key-path").arg(self.0.file("public.pem"));
            line = line.env("IPERF3_PASSWORD", password);
        }
        line.run()
    }
}

fn ours(keys: &Keys, words: &str) -> (Proc, String) {
    iperf3::ours(|line| keys.server(line, words))
}

#[test]
fn only_who_is_known_gets_a_test() {
    let keys = Keys::new();
    let (server, port) = ours(&keys, "");
    for (password, code, words) in [(Some("luigi"), 0, "iperf Done"), (Some("bowser"), 1, ""), (None, 1, "")]
    {
        let done = keys.client(&port, password, "");
        assert_eq!(done.code, Some(code), "{password:?}: {}", done.tell());
        assert!(done.out.contains(words), "{}", done.tell());
        assert_eq!(done.err.contains("authorization failed (142)"), code == 1, "{}", done.tell());
    }
    // The older padding is not taken unless it is allowed.
    keys.client(&port, Some("luigi"), "--use-pkcs1-padding").exits(1).complains(&["(142)"]);
    let (older, its_port) = ours(&keys, "--use-pkcs1-padding");
    for words in ["", "--use-pkcs1-padding"] {
        keys.client(&its_port, Some("luigi"), words).exits(0);
    }
    // A user added while the server runs is accepted.
    keys.0.with("users.csv", "");
    keys.client(&port, Some("luigi"), "").exits(1);
    keys.0.with("users.csv", USERS);
    keys.client(&port, Some("luigi"), "").exits(0);
    drop((server, older));
    // A failed authentication is no test.
    let (server, port) = ours(&keys, "-1");
    keys.client(&port, Some("bowser"), "").exits(1);
    keys.client(&port, Some("luigi"), "").exits(0);
    server.wait().exits(0);
}

/// A typed password is not shown, even when typed at once.
#[test]
fn a_password_is_asked_for() {
    const NAME: &str = "a_password_is_asked_for";
    let keys = Keys::new();
    let (_server, port) = ours(&keys, "");
    for (typed, code) in [("luigi\\n", 0), ("bowser\\n", 1)] {
        let words = format!("-c 127.0.0.1 -p {port} -n 64K -l 8K --username mario --rsa-public-key-path");
        let Some(line) = call("terminal.py", NAME, "") else { return };
        let line = line.arg("Password: ").arg(typed).args("--").arg(BIN).args("iperf3").args(&words);
        let done = line.arg(keys.0.file("public.pem")).without("IPERF3_PASSWORD").run().exits(0);
        let (shown, last) = done.out.trim_end().rsplit_once('\n').unwrap();
        let left: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!((&left["code"], &left["restored"]), (&code.into(), &true.into()), "{shown}");
        assert!(!shown.contains(typed.trim_end_matches("\\n")), "{shown}");
    }
}

#[test]
fn files_that_are_no_keys_are_told_at_once() {
    let keys = Keys::new();
    let server = |words: &str| keys.server(netcaliper("iperf3").args("-s -p 0 --forceflush"), words).run();
    server("--rsa-private-key-path /nowhere/key").exits(1).complains(&["/nowhere/key"]);
    keys.0.with("private.pem", PUBLIC);
    server("").exits(1).complains(&["no RSA private key"]);
    keys.0.with("public.pem", "nothing");
    keys.client("1", Some("luigi"), "").exits(1).complains(&["no RSA public key"]);
    keys.0.with("public.pem", PUBLIC);
    keys.client("1", Some("two words"), "").exits(1).complains(&["white space"]);
}

/// What the installed program says of itself.
fn version() -> String {
    Line(Command::new("iperf3")).arg("-v").run().out
}

/// The padding that the installed program knows: the newer one since 3.17.
fn padding() -> &'static str {
    let version = version();
    let minor = version.split_whitespace().nth(1).and_then(|v| v.split('.').nth(1)?.parse::<u32>().ok());
    if minor.unwrap_or(0) >= 17 { "" } else { "--use-pkcs1-padding" }
}

/// Whether the program is there, and knows authentication; a skip on record otherwise.
fn there(test: &str) -> bool {
    if iperf3::missing(test) {
        return false;
    }
    let knows = version().contains("authentication");
    if !knows {
        skip(test, "this iperf3 was built without authentication");
    }
    knows
}

#[test]
fn the_real_client_at_our_server() {
    if !there("the_real_client_at_our_server") {
        return;
    }
    let keys = Keys::new();
    let (server, port) = ours(&keys, padding());
    for (password, code) in [(Some("luigi"), 0), (Some("bowser"), 1), (None, 1), (Some("luigi"), 0)] {
        let done = keys.run(Line(Command::new("iperf3")), &port, password, "");
        assert_eq!(done.code, Some(code), "{password:?}: {}", done.tell());
    }
    drop(server);
}

#[test]
fn our_client_at_the_real_server() {
    let name = "our_client_at_the_real_server";
    if !there(name) {
        return;
    }
    let keys = Keys::new();
    let Some((_server, port)) = iperf3::real(name, |line| keys.server(line, "")) else { return };
    for (password, code) in [(Some("luigi"), 0), (Some("bowser"), 1), (None, 1)] {
        let done = keys.client(&port, password, padding());
        assert_eq!(done.code, Some(code), "{password:?}: {}", done.tell());
    }
}
