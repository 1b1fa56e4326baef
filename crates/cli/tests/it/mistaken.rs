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
        ("serve -s", "'-s' is another program's: leave it out"),
        ("delay 10.0.0.1 -u -b 10M", "'-u' is another program's: leave it out"),
        ("delay 10.0.0.1 -d 10s", "use `-t 10s`"),
        ("irtt client 10.0.0.1", "use `netcaliper delay 10.0.0.1`"),
        ("serve -Listen:*", "'-Listen:*' is ctsTraffic's: use `netcaliper ctstraffic -Listen:* …`"),
        ("tcp -Target:10.0.0.1", "'-Target:10.0.0.1' is ctsTraffic's"),
        ("tcp 10.0.0.1 7411", "'7411' is no host: a port is `-p 7411`, or HOST:7411"),
        ("ping 5", "'5' is no host"),
        ("tcp -u 10.0.0.1", delay),
        ("tcp 10.0.0.1 --udp", "use `netcaliper delay HOST -b RATE`"),
        ("--udp 10.0.0.1", delay),
        ("udp 10.0.0.1", delay),
        ("ping -c 3 10.0.0.1", "'-c' is another program's: use `-n 3`"),
    ]);
}

#[test]
fn every_letter_of_iperf3_works_or_is_answered() {
    are_answered(&[
        ("tcp 10.0.0.1 -f M", "'-f' is another program's: leave it out; rates have their units"),
        ("tcp 10.0.0.1 --format m", "'--format' is another program's"),
        ("tcp 10.0.0.1 -A 2,3", "use `--affinity 2,3`"),
        ("tcp 10.0.0.1 -S 0xb8", "use `--dscp NAME`: a TOS byte divided by 4"),
        ("tcp 10.0.0.1 -Z", "'-Z' is another program's: leave it out"),
        ("tcp 10.0.0.1 -N", "TCP_NODELAY is on (`--nodelay off`"),
        ("tcp 10.0.0.1 -k 10", "use `-n BYTES`"),
        ("serve -D", "a service manager runs `netcaliper serve`"),
        ("serve -1", "use `netcaliper serve --exit-after N`"),
        ("tcp 10.0.0.1 -1", "'-1' is another program's"),
        ("tcp 10.0.0.1 -F file", "use `netcaliper iperf3 -F file`"),
        ("tcp 10.0.0.1 -L 7", "use `--flow-label 7`"),
        ("tcp 10.0.0.1 -I pid", "leave it out; a service manager"),
        ("tcp 10.0.0.1 -T title", "`netcaliper history` has each run"),
        ("tcp 10.0.0.1 -d", "use `-v`"),
        ("tcp 10.0.0.1 --logfile out.txt", "use `--save out.txt`"),
        ("tcp 10.0.0.1 --logfile=out.txt", "use `--save out.txt`"),
        ("tcp 10.0.0.1 --json-stream", "use `--jsonl`"),
        ("tcp 10.0.0.1 --get-server-output", "leave it out"),
        ("tcp 10.0.0.1 --cport 5000", "use `--local-port 5000`"),
        ("tcp 10.0.0.1 --rcv-timeout 5", "use `--stall-timeout TIME`"),
        ("delay 10.0.0.1 --dont-fragment", "--df on"),
        ("tcp 10.0.0.1 --bitrate 10M", "'--bitrate' is another program's: use `-b 10M`"),
        ("tcp 10.0.0.1 --set-mss 1400", "use `-M 1400`"),
        ("tcp 10.0.0.1 --version4", "use `-4`"),
        ("tcp 10.0.0.1 --length 128K", "use `-l 128K`"),
        ("tcp 10.0.0.1 -b 0", "8 bit/s to 10T, or left out for no limit"),
        ("tcp 10.0.0.1 -i 0", "an interval is 10ms to 1h long; -q shows none"),
        ("tcp 10.0.0.1 -V", "'-V' is another program's: use `-v` for all tables"),
        ("tcp -V", "use `-v` for all tables"),
    ]);
    // Anywhere else it is the version's, under the program's one name.
    for words in ["--version", "-V", "tcp --version", "history -V", "fleet --version"] {
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        let done = netcaliper(first).args(rest).run().exits(0);
        assert_eq!(done.out, concat!("netcaliper ", env!("CARGO_PKG_VERSION"), "\n"), "{words}");
    }
}

#[test]
fn slips_hosts_and_words_in_the_place_of_a_command_are_answered() {
    are_answered(&[
        ("tpc 10.0.0.1", "unrecognized subcommand 'tpc'; a similar subcommand exists: 'tcp'"),
        ("dealy 10.0.0.1", "a similar subcommand exists: 'delay'"),
        ("srve", "a similar subcommand exists: 'serve'"),
        ("hist", "a similar subcommand exists: 'history'"),
        ("ntttpc 10.0.0.1", "a similar subcommand exists: 'ntttcp'"),
        (
            "10.0.0.1",
            "'10.0.0.1' is no command: to measure to a host of this name, use `netcaliper tcp 10.0.0.1`",
        ),
        ("host.example -t 5", "use `netcaliper tcp host.example`"),
        ("2001:db8::1", "use `netcaliper tcp 2001:db8::1`"),
        ("localhost", "use `netcaliper tcp localhost`"),
        ("lab2", "a similar subcommand exists: 'lab', and a host is `netcaliper tcp lab2`"),
        ("zzzz", "use `netcaliper tcp zzzz` (`netcaliper -h` lists all commands)"),
        ("iperf -c 10.0.0.1", "'iperf' is another program's: use `netcaliper tcp 10.0.0.1`"),
        ("download 10.0.0.1", "use `netcaliper tcp 10.0.0.1 -R`"),
        ("bandwidth", "use `netcaliper tcp HOST`"),
        ("bufferbloat 10.0.0.1", "use `netcaliper load 10.0.0.1`"),
        ("version", "use `netcaliper --version`"),
    ]);
}

#[test]
fn units_that_other_programs_read_otherwise_are_refused() {
    are_answered(&[
        ("lab --loss 1 -- true", "'1' is either 1 % or every packet: write 1% or 100%"),
        ("lab --delay 5 -- true", "'5' has no unit: write 5ms or 5s"),
        ("lab --up jitter=2 -- true", "'2' has no unit: write 2ms or 2s"),
        ("lab --rate 1M --queue 1000 -- true", "'1000' has no unit: write 1000p (packets)"),
        ("lab --delay 100ms 10ms -- true", "--delay 100ms --jitter 10ms"),
        ("lab delay 100ms -- true", "write a condition as an option, `--delay 100ms`"),
        ("lab --delay 5ms ping 10.77.0.2", "put `--` before"),
        ("monitor --every 5m ping 10.0.0.1", "put `--` before"),
        ("ping -i 0.2 10.0.0.1", "for a message every 0.2 s use --rate 5"),
        ("ping -i 1 10.0.0.1", "use --rate 1;"),
        ("ping -w 5 10.0.0.1", "the length of the run is `-t 5s`"),
        ("ping -s 56 10.0.0.1", "use `-l 56`"),
        ("ping -W 1 10.0.0.1", "use `--timeout 1s`"),
    ]);
}

#[test]
fn ports_that_cannot_be_had_are_explained() {
    let server = serve("");
    let done = netcaliper("serve").args(&format!("-p {}", server.port)).run().exits(1).says_one_sentence();
    done.complains(&["another server or program has the port", "`-p PORT` chooses another"]);
}

#[test]
fn short_help_shows_defaults() {
    let tcp = netcaliper("tcp").arg("-h").env("COLUMNS", "80").run().exits(0);
    tcp.prints(&["[default: 8]", "[default: 10s]", "--html"]);
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
fn a_configuration_file_that_nobody_named_and_nobody_can_read_is_one_warning() {
    let scratch = Scratch::new();
    // A folder is no file for any user, root included.
    let file = scratch.file("netcaliper/config.toml");
    std::fs::create_dir_all(&file).unwrap();
    let folder = scratch.file("netcaliper");
    let folder = folder.parent().unwrap();
    let line = |verb: &str| as_it_is(verb).env("NETCALIPER_CONFIG", "").env("XDG_CONFIG_HOME", folder);
    let done = line("key").args("public nosuch").run();
    assert_eq!(done.err.matches("netcaliper: warning: cannot read").count(), 1, "{}", done.tell());
    line("config").run().exits(0).prints(&["# cannot read"]);
    let named = as_it_is("config").env("NETCALIPER_CONFIG", &file).run().exits(2).says_one_sentence();
    named.complains(&["cannot read"]);
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
