//! Command lines that are nearly right: each is understood, or told what to type.

use crate::support::files::Scratch;
use crate::support::net::{free_port, has_ipv6};
use crate::support::{as_it_is, netcaliper, serve, skip, tcp};

/// Each command line is answered with one sentence, and nothing on stdout.
fn are_answered(cases: &[(&str, &str)]) {
    for &(words, sentence) in cases {
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        let done = netcaliper(first).args(rest).run().exits(2).says_one_sentence().complains(&[sentence]);
        assert_eq!(done.out, "", "{words}");
    }
}

#[test]
fn words_of_other_programs_are_answered_with_ours() {
    let delay = "use `netcaliper delay 10.0.0.1 -b RATE`";
    are_answered(&[
        ("-c 10.0.0.1", "'-c' is another program's: use `netcaliper tcp 10.0.0.1`"),
        ("--client 10.0.0.1", "use `netcaliper tcp 10.0.0.1`"),
        ("tcp -c 10.0.0.1", "use `netcaliper tcp 10.0.0.1`"),
        ("-s", "'-s' is another program's: use `netcaliper serve`"),
        ("tcp -s", "use `netcaliper serve`"),
        ("tcp -u 10.0.0.1", delay),
        ("tcp 10.0.0.1 --udp", "use `netcaliper delay HOST -b RATE`"),
        ("--udp 10.0.0.1", delay),
        ("udp 10.0.0.1", delay),
        ("ping -c 3 10.0.0.1", "'-c' is another program's: use `-n 3`"),
    ]);
}

#[test]
fn what_the_command_line_lacks_or_cannot_mean_is_one_sentence() {
    are_answered(&[
        ("tcp", "required arguments were not provided: <HOST>... (`netcaliper tcp -h` has examples)"),
        ("tcp 10.0.0.1 -t 1m30x", "'1m30x' is not a duration such as 10s"),
        ("tcp 10.0.0.1 --congestion", "a value is required for '--congestion <NAME>'"),
        (
            "export last --format xml",
            "invalid value 'xml' for '--format <FORMAT>' [possible values: csv, jsonl",
        ),
        ("pingg 10.0.0.1", "unrecognized subcommand 'pingg'; a similar subcommand exists: 'ping'"),
        (
            "connect 10.0.0.1 -x 1",
            "`netcaliper connect` does not take '-x': `netcaliper connect --help` lists",
        ),
        (
            "tcp 10.0.0.1 --conections 4",
            "`netcaliper tcp` does not take '--conections': did you mean '--connections'?",
        ),
        ("--frobnicate", "`netcaliper` does not take '--frobnicate'"),
        ("serve extra", "extra"),
        ("demo extra", "extra"),
        ("connect 10.0.0.1 --pattern pull", "--pattern"),
        ("connect 10.0.0.1 -R", "-R"),
    ]);
}

#[test]
fn units_as_other_programs_have_them_are_understood() {
    let server = serve("");
    let outcome = tcp(server.at()).args("--parallel 3 -b 10Mbit -t 1m30s -n 30000").outcome().good();
    let phase = &outcome.point()["phase"];
    assert_eq!((&phase["connections"], &phase["rate"]), (&3.into(), &10_000_000.into()));
    assert_eq!(phase["duration_ns"], 90_000_000_000_u64);
}

#[test]
fn a_closed_port_is_told_on_stderr() {
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    for words in ["", "--json", "--jsonl", "--quiet"] {
        let done = tcp(&at).args("-n 1M").args(words).run().exits(1).says_one_sentence();
        done.complains(&["Connection refused", "is `netcaliper serve` running there?", &at]);
    }
    for verb in ["connect", "ping", "delay", "stream", "train", "load"] {
        let done = netcaliper(verb).arg(&at).run().exits(1).says_one_sentence();
        done.complains(&["Connection refused", "is `netcaliper serve` running there?"]);
    }
}

#[test]
fn an_address_of_ipv6_with_its_port_wants_brackets() {
    if !has_ipv6() {
        return skip("mistaken::an_address_of_ipv6_with_its_port_wants_brackets", "this machine has no IPv6");
    }
    // This is an address, ::0.1.116.17, and one that no route leads to.
    let done = tcp("::1:7411").args("-n 1M").run().exits(1).says_one_sentence();
    done.complains(&["did you mean [::1]:7411?"]);
}

#[test]
fn a_mistake_in_the_configuration_file_is_one_sentence_and_help_needs_no_file() {
    let scratch = Scratch::new();
    for (text, sentence) in [
        (
            "[defaults.ping]\ncount = 3\n",
            "there is no command 'defaults': a section is a command such as [tcp]",
        ),
        ("[ping]\nspeed = 3\n", "ping has no option --speed: `netcaliper ping --help` lists its options"),
    ] {
        let file = scratch.with("config.toml", text);
        let line = |verb: &str| as_it_is(verb).env("NETCALIPER_CONFIG", &file);
        line("history").run().exits(2).says_one_sentence().complains(&["config.toml: ", sentence]);
        for asked in ["-h", "--help", "--version"] {
            assert_eq!(line("ping").arg(asked).run().exits(0).err, "");
        }
    }
}
