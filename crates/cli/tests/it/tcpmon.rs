//! tcpmon with the real binary, either end, against an independent peer: `peers/tcpmon.py`, written
//! from the description of its messages with Python's standard library.

use crate::support::files::Scratch;
use crate::support::peer::peer;
use crate::support::{Proc, netcaliper, number};
use serde_json::Value;

const PEER: &str = "tcpmon.py";

/// Our responder by its own name, and its port.
fn responder(words: &str) -> (Proc, String) {
    let proc = netcaliper("tcpmon_resp").args("-u 0").args(words).spawn();
    let line = proc.hears("The TCP port is");
    (proc, line.split_whitespace().nth(4).unwrap().to_owned())
}

/// What a Python responder saw of each connection.
fn deeds(server: Proc) -> Vec<Value> {
    server.signal("INT");
    server.wait().last_json().as_array().unwrap().clone()
}

/// The value of the column `title` in the line that begins with `start`.
fn column(text: &str, start: &str, title: &str) -> String {
    let titles = text.lines().find(|line| line.starts_with(" pkt len; soc_buf_size;")).unwrap();
    let line =
        text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("'{start}': {text}"));
    let place = titles.split(';').position(|column| column.trim() == title).unwrap();
    line.split(';').nth(place).unwrap().trim().to_owned()
}

#[test]
fn the_face_asks_for_everything_and_prints_it() {
    const NAME: &str = "tcpmon::the_face_asks_for_everything_and_prints_it";
    let Some(server) = peer(PEER, NAME, "respond 127.0.0.1 0") else { return };
    let port = server.port();
    let scratch = Scratch::new();
    let file = scratch.file("run.jsonl");
    let words = format!("-d 127.0.0.1 -u {port} -p 1000 -w 100 -l 10 -g 500 -n 4 -H -G 2:3 -C --save");
    let done = netcaliper("tcpmon_mon").args(&words).arg(&file).run().exits(0);
    for (title, expected) in [
        ("num_sent", "40"),
        ("wait_time", "100"),
        ("num_recv", "40"),
        ("bytes_recv", "40000"),
        ("pkt len", "1000"),
    ] {
        assert_eq!(column(&done.out, " 1000;", title), expected, "{title}: {}", done.tell());
    }
    // Each message took a time, and of the third to the fifth it is told one by one.
    let hist = done.out.lines().skip_while(|line| !line.starts_with("Hist")).skip(2);
    let bins = hist.take(100).map(|line| line.split(" ; ").nth(1).unwrap().parse::<u64>().unwrap());
    let beside = done.out.lines().find(|line| line.starts_with(" counts ")).unwrap().split_whitespace();
    let beside: Vec<u64> = beside.filter_map(|word| word.parse().ok()).collect();
    let (under, over) = (beside[beside.len() - 2], beside[beside.len() - 1]);
    assert_eq!((bins.sum::<u64>() + over, under), (40, 0), "{}", done.tell());
    let rows = done.out.lines().skip_while(|line| !line.starts_with("InfoStore;")).skip(1);
    let rows: Vec<&str> = rows.filter(|line| line.contains(" ; 1000 ; ")).collect();
    assert_eq!(rows.len(), 3, "{}", done.tell());
    if cfg!(target_os = "linux") {
        // Number, time, size, sends, socket, elapsed, two buffers, threshold, window, two times,
        // segments sent again.
        for row in &rows {
            let cells: Vec<&str> = row.trim_end_matches(" ; ").split(" ; ").collect();
            assert!(cells.len() == 13 && cells.iter().all(|cell| cell.parse::<u64>().is_ok()), "{row}");
            assert!(cells[6] != "0" && cells[9] != "0", "buffers and a window: {row}");
        }
    }
    let done = done.prints(&["\nR ; 4; 0; 9; 85; 0; 0; 0; ;\nR0 ; 4; 0; 9; 85; 0; 0; 0; ;\n"]);
    let did = deeds(server);
    assert_eq!([&did[0]["messages"], &did[0]["bytes"]].map(number), [40, 40_000], "{did:?}");
    assert_eq!(did[0]["asked"].to_string(), "[2,67,69,69,68]", "{did:?}");
    // What was kept is printed again, to the byte.
    let again = netcaliper("report").arg(&file).args("--as tcpmon_mon").run().exits(0);
    assert_eq!(again.out, done.out);
    let other = netcaliper("report").arg(&file).args("--as udpmon_req").run();
    other.exits(1).complains(&["no round trips"]);
}

#[test]
fn a_count_that_differs_is_an_error() {
    const NAME: &str = "tcpmon::a_count_that_differs_is_an_error";
    let Some(server) = peer(PEER, NAME, "respond 127.0.0.1 0 miscount=1") else { return };
    let port = server.port();
    let done = netcaliper("tcpmon_mon").args(&format!("-d 127.0.0.1 -u {port} -l 5")).run().exits(1);
    done.complains(&["50000", "49999"]);
}

#[test]
fn our_responder_counts_many_connections_at_once() {
    const NAME: &str = "tcpmon::our_responder_counts_many_connections_at_once";
    let (server, port) = responder("-v -I lo");
    let words: String = (1..=6).map(|n| format!(" 1000x{n},144,50000")).collect();
    let Some(askers) = peer(PEER, NAME, &format!("ask 127.0.0.1 {port}{words}")) else { return };
    let done = askers.wait().exits(0);
    assert_eq!(done.out.lines().count(), 6, "{}", done.tell());
    for (n, line) in (1..).zip(done.out.lines()) {
        let told: Value = serde_json::from_str(line).unwrap();
        let bytes = 1000 * n + 50_144;
        assert_eq!([&told["received"], &told["bytes"]].map(number), [n + 2, bytes], "{}", done.tell());
        assert_eq!([&told["net"], &told["cpu_bytes"]].map(number), [26_888, 12_384]);
        if cfg!(target_os = "linux") {
            assert!(told["dev"].as_str().unwrap().contains("lo:") && number(&told["cpus"]) >= 2, "{told}");
            // The first card is the one that was named, with the nine counters of UDPmon; there is
            // no second.
            let cards = [&told["cards"], &told["counts"]].map(ToString::to_string);
            assert_eq!(cards, [r#"["lo",""]"#, "[9,0]"], "{told}");
        }
        server.hears(&format!(";  {bytes}  "));
    }
}

#[test]
fn parallel_streams_have_their_windows() {
    let (_server, port) = responder("-S 65536");
    let words =
        format!("127.0.0.1:{port} --protocol tcpmon --verify connection -P 12 --iterations 1 -l 20000");
    let line = netcaliper("tcp").args(&words).args("--transfer 400000 --sndbuf 65536 --rcvbuf 65536");
    let outcome = line.outcome().exits(0);
    let local = outcome.local();
    let moved = [&local["completed"], &local["traffic"]["tx_bytes"]].map(number);
    assert_eq!(moved, [12, 12 * 400_000], "{local}");
    let effective = &local["effective"];
    // Linux keeps twice what was asked for, for its own bookkeeping.
    assert!([65_536, 131_072].contains(&number(&effective["sndbuf"])), "{effective}");
    assert_eq!(outcome.point()["extras"].as_array().unwrap().len(), 12, "a test for each stream");
    // What the responder says it received is the result.
    let up = &outcome.point()["up"];
    assert_eq!((&up["confirmed"], number(&up["received_bytes"])), (&true.into(), 12 * 400_000), "{up}");
}

#[test]
fn what_came_until_the_time_was_over_is_confirmed() {
    let (_server, port) = responder("");
    let words = format!("127.0.0.1:{port} --protocol tcpmon --verify connection -P 2 -t 300ms -b 50M");
    let outcome = netcaliper("tcp").args(&words).outcome().exits(0);
    let up = &outcome.point()["up"];
    // What was under way when the time was over has come, too.
    let [sent, received] = [&up["sent_bytes"], &up["received_bytes"]].map(number);
    assert!(up["confirmed"] == true && sent > 0 && received >= sent, "{up}");
    assert_eq!(outcome.caveat("unconfirmed"), None);
}

#[test]
fn progress_tells_the_segments_of_the_host() {
    const NAME: &str = "tcpmon::progress_tells_the_segments_of_the_host";
    let Some(server) = peer(PEER, NAME, "respond 127.0.0.1 0") else { return };
    let port = server.port();
    let words = format!("-d 127.0.0.1 -u {port} -p 1000 -w 20000 -t 3600 -i 1");
    let client = netcaliper("tcpmon_mon").args(&words).spawn();
    let line = client.hears("\t\t");
    let cells: Vec<&str> = line.split('\t').filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells.len(), 7, "{line}");
    let (bytes, segments) = (cells[1].parse::<u64>().unwrap(), cells[6].parse::<u64>());
    assert!(bytes > 0 && bytes.is_multiple_of(1000), "{line}");
    assert!(!cfg!(target_os = "linux") || segments.unwrap() > 0, "{line}");
    client.signal("INT");
    client.wait().exits(130);
}

#[test]
fn our_responder_prints_what_it_noted() {
    const NAME: &str = "tcpmon::our_responder_prints_what_it_noted";
    let (server, port) = responder("-v -H -B 1000 -G 1:2 -i 3600");
    let Some(asker) = peer(PEER, NAME, &format!("ask 127.0.0.1 {port} 1000x4,144")) else { return };
    asker.wait().exits(0);
    // With records and -v it ends behind its first connection, as the original.
    let done = server.wait().exits(0);
    let lines: Vec<&str> = done.out.lines().collect();
    let behind = |title: &str| {
        let at = lines.iter().position(|line| line.contains(title));
        &lines[at.unwrap_or_else(|| panic!("{title}: {}", done.tell())) + 1..]
    };
    // The rest that no period has told: 5 messages, 4144 bytes, 828 each.
    assert!(behind("num; linux time;")[0].contains("; 0; 5; 4144; 828; "), "{}", done.tell());
    for title in ["Time between messages us", "Message read time us"] {
        let rows = behind(title);
        let over: u64 = rows[0].split_whitespace().last().unwrap().parse().unwrap();
        let bins = rows[1..151].iter().map(|row| row.split(" ; ").nth(1).unwrap().parse::<u64>().unwrap());
        assert_eq!(bins.sum::<u64>() + over, 5, "{title}: {}", done.tell());
    }
    let rows = &behind("InfoStore; network_time_us; read")[..2];
    for (n, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = row.trim_end_matches(" ; ").split(" ; ").collect();
        assert_eq!((cells.len(), cells[0], cells[2]), (11, n.to_string().as_str(), "1000"), "{row}");
        assert!(!cfg!(target_os = "linux") || cells.iter().all(|cell| cell.parse::<u64>().is_ok()), "{row}");
    }
}
