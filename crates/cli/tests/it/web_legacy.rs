//! A server's page: clients of every protocol that goes along are seen while they are served.

use crate::support::net::free_row;
use crate::support::{BIN, PATIENCE, Proc, serve};
use crate::web::{Feed, live};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sends `what` every few milliseconds until it is told to end.
fn drip(over: &Arc<AtomicBool>, mut send: impl FnMut() + Send + 'static) {
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        while !over.load(Ordering::Acquire) {
            send();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// The rows of a page's sessions that are in progress: the first cell, and the others.
fn in_progress(html: &str) -> Vec<(String, Vec<String>)> {
    let Some(table) =
        html.split("<h3>In progress</h3>").nth(1).and_then(|rest| rest.split("</table>").next())
    else {
        return Vec::new();
    };
    let cells = |row: &str| -> Vec<String> {
        row.split("<td")
            .skip(1)
            .filter_map(|c| Some(c.split_once('>')?.1.split('<').next()?.to_owned()))
            .collect()
    };
    let rows = table.split("<th scope=\"row\">").skip(1);
    rows.map(|row| (row.split('<').next().unwrap().to_owned(), cells(row))).collect()
}

#[test]
fn clients_of_every_protocol_are_shown_while_they_are_served() {
    let row = free_row(17, 0);
    let server = serve(&format!(
        "-i 100ms --web 127.0.0.1:0 --legacy echo:0,stamp:0,ttcp:0,ctstraffic:0,udpmon:0,bwdelaytester:0,tcpmon:0 \
         --legacy ntttcp:{row}"
    ));
    let (page, _) = live(&server.proc);
    let at = |name| server.proc.port_of(name);
    let over = Arc::new(AtomicBool::new(false));
    // Protocols without negotiation are spoken by hand.
    let streams = [at("ttcp"), at("echo")].map(|port| TcpStream::connect(("127.0.0.1", port)).unwrap());
    for mut stream in streams {
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut back = stream.try_clone().unwrap();
        std::thread::spawn(move || std::io::copy(&mut back, &mut std::io::sink()));
        drip(&over, move || drop(stream.write(&[7; 1000])));
    }
    let echo = at("echo");
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    drip(&over, move || drop(probe.send_to(&[7; 100], ("127.0.0.1", echo))));
    // The others have clients of ours, at a moderate rate and for as long as it takes.
    let run = |words: &str| {
        let mut command = Command::new(BIN);
        command.args(words.split_whitespace()).env("NETCALIPER_STORE", "off");
        Proc::spawn(&mut command)
    };
    let clients = [
        run(&format!("ping 127.0.0.1 --protocol stamp -p {} -t 600s -i 1s -q", at("stamp"))),
        run(&format!(
            "delay 127.0.0.1 --protocol bwdelaytester -p {} -t 600s --pps 100 -q",
            at("bwdelaytester")
        )),
        run(&format!(
            "ctstraffic -Target:127.0.0.1 -Port:{} -Connections:2 -RateLimit:1000000 -ConsoleVerbosity:0",
            at("ctstraffic")
        )),
        run(&format!("tcpmon_mon -d 127.0.0.1 -u {} -p 1000 -l 100000000 -w 1000", at("tcpmon"))),
        run(&format!("udpmon_bw_mon -d 127.0.0.1 -u {} -p 500 -l 100000000 -w 5000", at("udpmon"))),
        run(&format!("ntttcp -s127.0.0.1 -p {row} -P 1 -n 1 -l 1 --fq-rate-limit 80M -t 600")),
    ];
    let names = ["bwdelaytester", "ctstraffic", "echo", "ntttcp", "stamp", "tcpmon", "ttcp", "udpmon"];
    let (mut feed, mut latest, mut still) = (Feed::open(&page), String::new(), BTreeSet::from(names));
    let until = Instant::now() + PATIENCE;
    while !still.is_empty()
        && Instant::now() < until
        && let Some(message) = feed.next()
    {
        if let Some(html) = message["parts"]["sessions"].as_str() {
            html.clone_into(&mut latest);
        }
        for (name, cells) in in_progress(&latest) {
            // Something goes one way or the other, at this moment and in all.
            if cells[1..3].iter().any(|rate| rate != "0 bit/s") && cells[7..9].iter().any(|b| b != "0 B") {
                still.remove(name.as_str());
            }
        }
    }
    let told = clients.map(|client| {
        client.signal("KILL");
        client.wait().tell()
    });
    over.store(true, Ordering::Release);
    assert!(still.is_empty(), "{still:?}\n{:#?}\n{latest}\n{told:?}", in_progress(&latest));
}
