//! bwdelaytester with the real binary, either end, against an independent peer:
//! `peers/bwdelaytester.py`, written from a description of the packet with Python's standard
//! library. The peer drops, repeats and reorders chosen numbers, and what is printed must be that.

use crate::support::files::Scratch;
use crate::support::peer::peer;
use crate::support::{Done, Server, eventually, netcaliper, number, skip, whole};
use std::process::Command;

const PEER: &str = "bwdelaytester.py";
const COLUMNS: &str = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv mindelayus_last_intv \
                       maxdelayus_last_intv avgdelayus_last_intv ";

/// The personality as a server on a free port.
fn server(words: &str) -> Server {
    Server::start(netcaliper("bwdelaytester").args("--port 0").args(words))
}

/// Everything that the peer sends to a server with these arguments, as its printout.
fn heard(test: &str, words: &str, sent: &str) -> Option<Done> {
    let server = server(words);
    let (count, how) = sent.split_once(' ').unwrap();
    let sender = peer(PEER, test, &format!("send 127.0.0.1 {} {count} {how}", server.port))?.wait().exits(0);
    let left: u64 = sender.out.trim().parse().unwrap();
    // The sender has ended, so all is in the socket; the last line comes when its tenth of a second
    // is over.
    if words.contains("as-original") {
        server.proc.hears("First packet seen");
        eventually("there is a line", || !lines(&server.proc.out()).is_empty());
    } else {
        let repeated =
            sent.split("twice=").nth(1).map_or(0, |list| list.split(' ').next().unwrap().split(',').count());
        let all = left - repeated as u64;
        eventually("all lines are printed", || tenths(&lines(&server.proc.out()), 1) >= all);
    }
    server.proc.signal("INT");
    Some(server.proc.wait().exits(1))
}

/// The lines on stdout, as numbers.
fn lines(out: &str) -> Vec<[i64; 7]> {
    let row = |line: &str| -> [i64; 7] {
        let numbers: Vec<i64> = line.split(' ').map(|word| word.parse().expect(line)).collect();
        numbers.try_into().expect(line)
    };
    whole(out).lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// A column's sum in tenths: what came in all.
fn tenths(lines: &[[i64; 7]], column: usize) -> u64 {
    lines.iter().map(|line| line[column] as u64).sum::<u64>() / 10
}

fn sum(lines: &[[i64; 7]], column: usize) -> i64 {
    lines.iter().map(|line| line[column]).sum()
}

/// The lines below a head on stderr, as far as they are numbers.
fn table<'a>(err: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let below = err.split_once(head).unwrap_or_else(|| panic!("no '{head}' in {err}")).1;
    let rows = below.lines().skip(1).take_while(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    rows.map(|line| line.split(' ').collect()).collect()
}

#[test]
fn what_a_sender_did_is_what_a_server_prints() {
    let test = "what_a_sender_did_is_what_a_server_prints";
    let sent = "600 100 500 drop=50,51,52,300 twice=100,200,201 swap=120,400";
    let Some(done) = heard(test, "", sent) else { return };
    assert!(done.out.starts_with(&format!("{COLUMNS}\n")), "{}", done.tell());
    let lines = lines(&done.out);
    // 600 numbers without four; repeats are counted apart, and what was overtaken was not lost.
    assert_eq!((tenths(&lines, 1), tenths(&lines, 0)), (596, 59_600), "{}", done.tell());
    assert_eq!((sum(&lines, 2), sum(&lines, 3)), (4, 2), "drops, runs of them: {}", done.tell());
    assert!(lines.iter().all(|l| 0 <= l[4] && l[4] <= l[6] && l[6] <= l[5]), "{}", done.tell());
    let done = done.complains(&[
        "First packet seen from 127.0.0.1:",
        "# 596 packets arrived, 4 did not; 3 arrived more than once, 2 had",
    ]);
    let histogram = table(&done.err, "## Printing latency histogram:");
    assert_eq!((histogram.len(), histogram[99][0], histogram[99][2]), (100, "19800", "100"));
    let counted: u64 = histogram.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
    assert_eq!(counted, 596);
    assert!(done.err.ends_with("## Printing sweep data:\n"), "{}", done.tell());
}

#[test]
fn a_restart_on_the_same_port_is_a_new_run() {
    let Some(done) = heard("a_restart_on_the_same_port_is_a_new_run", "-a -l 3", "300 64 500 again=200 mono")
    else {
        return;
    };
    let lines = lines(&done.out);
    assert_eq!((tenths(&lines, 1), sum(&lines, 2)), (300, 0), "{}", done.tell());
    // -l is in milliseconds: 3000 us are added to what a datagram took longer than the fastest.
    assert!(lines.iter().all(|line| line[4] >= 3_000), "{}", done.tell());
    done.complains(&["WARNING: Remote restarted. Restarting here too", "relative"]);
}

#[test]
fn the_originals_arithmetic_can_be_had() {
    // What it makes of each datagram is tested in `compat`; how many of them a line holds depends
    // on when they are read.
    let test = "the_originals_arithmetic_can_be_had";
    let Some(done) = heard(test, "--as-original", "100 100 500 ") else { return };
    let lines = lines(&done.out);
    // The first line comes with the first packet; the first smallest delay is 0, because nothing is
    // below it.
    assert_eq!(lines[0][..5], [1_000, 10, 0, 0, 0], "{}", done.tell());
}

#[test]
fn a_client_sends_what_the_original_reads() {
    let test = "a_client_sends_what_the_original_reads";
    let Some(receiver) = peer(PEER, test, "receive 127.0.0.1 0") else { return };
    let port = receiver.port();
    let words = format!("-c 127.0.0.1 -p 160 -b 1 --port {port}");
    let client = netcaliper("bwdelaytester").args(&words).spawn();
    receiver.hears("seen 100");
    client.signal("INT");
    let done = client.wait().exits(1).complains(&["## Printing sweep data:", "packets left"]);
    let left: u64 =
        done.err.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{}", done.tell()));
    receiver.signal("INT");
    let got = receiver.ended();
    let column = |name: &str| got[name].as_array().unwrap().iter().map(number).collect::<Vec<u64>>();
    assert_eq!(column("numbers"), (0..left).collect::<Vec<_>>());
    assert!(left >= 100);
    assert_eq!((got["sizes"].to_string(), got["ahead"].as_u64()), ("[160]".to_owned(), Some(0)));
    assert_eq!(got["fillers"].as_array().unwrap().len(), 1, "the same filler in every datagram");
    assert!(got["fillers"][0].as_str().unwrap().starts_with("0000010002000300"));
    let stamps = column("stamps");
    assert!(stamps.is_sorted() && stamps[0] > 1_700_000_000_000_000);
}

#[test]
fn ours_to_ours_under_serve_and_delay() {
    let server = crate::support::serve("--legacy bwdelaytester:0");
    let port = server.proc.port_of("bwdelaytester");
    let words = format!("127.0.0.1:{port} --protocol bwdelaytester -l 500 --pps 400 -t 500ms");
    netcaliper("delay").args(&words).run().exits(0).prints(&["sent"]);
    // Two sockets on one port would share a sender's datagrams between them.
    server.end().prints(&["datagrams from 1 sender"]);
}

#[test]
fn what_was_printed_can_be_read_back_and_what_was_saved_printed_again() {
    let test = "what_was_printed_can_be_read_back_and_what_was_saved_printed_again";
    let folder = Scratch::new();
    let file = folder.file("run.jsonl");
    let words = format!("--save {}", file.display());
    let Some(done) = heard(test, &words, "400 100 500 drop=50,51") else { return };
    let packets = |name: &str, text: &str| {
        let outcome = netcaliper("report").arg(folder.with(name, text)).outcome().exits(0);
        outcome.remote()[0]["packets"].clone()
    };
    let (out, err) = (packets("stdout.txt", &done.out), packets("stderr.txt", &done.err));
    assert_eq!([&out["counts"]["received"], &out["counts"]["lost"]].map(number), [398, 2], "{out}");
    assert_eq!(number(&err["delay_ns"]["count"]), 398, "{err}");

    // A server is ended by a signal, so its run is one that was interrupted.
    let outcome = netcaliper("report").arg(&file).args("--json").run().exits(130);
    for file in [file, folder.with("run.json", &outcome.out)] {
        let again = netcaliper("report").arg(&file).args("--as bwdelaytester").run().exits(0);
        let lines = lines(&again.out);
        // Rates are by the true length of each tenth of a second: the sum is near that of all
        // packets.
        assert!(!lines.is_empty() && lines.iter().all(|line| line[1] > 0), "{}", again.tell());
        assert_eq!(sum(&lines, 2), 2, "{}", again.tell());
    }
}

#[test]
fn command_lines_that_cannot_be_get_the_usage_and_exit_code_of_the_original() {
    for (words, why) in [
        ("-c 127.0.0.1 -p 8 -b 1", "Unsupported packet size"),
        ("-c 127.0.0.1 -p 100", "Supply either delay or target bandwidth"),
        ("-h", "invalid option -- 'h'"),
    ] {
        let done = netcaliper("bwdelaytester").args(words).run().exits(1);
        done.complains(&[why]).prints(&["client: bwdelaytester -c"]);
    }
}

/// Script lines in the style of the original's, on our output.
const PLOT: &str = "
set term png size 400,200
set output 'live.png'
plot 'data.dat' using 0:(($1*8)/1000000) with lines, 'data.dat' using 0:(($3*1016*8*10)/1000000) with lines, \
     'data.dat' using 0:($5/1000) with lines axes x1y2, 'data.dat' using 0:($6/1000) with lines axes x1y2, \
     'data.dat' using 0:($7/1000) with lines axes x1y2
set output 'histogram.png'
set style fill solid
set y2tics
plot 'latencydata.txt' using 1:2 with boxes, 'latencydata.txt' using 1:3 with lines axes x1y2
set output 'sweep.png'
plot 'bwdelaydat.txt' using 1:($3/1000) with linespoints, 'bwdelaydat.txt' using 1:($4/1000) with linespoints, \
     'bwdelaydat.txt' using 1:($5/1000) with linespoints, 'bwdelaydat.txt' using 1:2 with linespoints axes x1y2
";

#[test]
fn gnuplot_draws_what_is_printed() {
    let test = "gnuplot_draws_what_is_printed";
    if !Command::new("gnuplot").arg("--version").output().is_ok_and(|o| o.status.success()) {
        return skip(test, "gnuplot is not there");
    }
    // A rate is shown when it was met in more than ten tenths of a second.
    let Some(done) = heard(test, "-s", "900 100 2000 drop=7,300,600") else { return };
    let folder = Scratch::new();
    let (histogram, sweep) = done.err.split_once("## Printing sweep data:\n").unwrap();
    let latency = histogram.split_once("## Printing latency").unwrap().1.split_once('\n').unwrap().1;
    folder.with("data.dat", &done.out);
    folder.with("latencydata.txt", latency);
    folder.with("bwdelaydat.txt", sweep);
    let rows = table(&done.err, "## Printing sweep data:");
    assert_eq!(rows.len(), 1, "{}", done.tell());
    assert_eq!((rows[0].len(), rows[0][0]), (6, "10"), "up to 10 Mbit/s: {}", done.tell());
    folder.with("plot.gnuplot", PLOT);
    let drawn = Command::new("gnuplot").arg("plot.gnuplot").current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&drawn.stderr).into_owned();
    assert!(
        drawn.status.success() && !said.contains("warning") && !said.contains("no valid points"),
        "{said}"
    );
    for picture in ["live.png", "histogram.png", "sweep.png"] {
        assert!(std::fs::read(folder.file(picture)).unwrap().starts_with(b"\x89PNG"), "{picture}");
    }
}
