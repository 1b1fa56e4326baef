//! The printouts: what was asked for, a line a test, histograms and records.

use super::args::{Program, Spec};
use super::number::g;
use super::tables;
use metrics::{SECOND, Wall};
use model::{Event, Level, Outcome, UdpmonCounts, UdpmonRecords, UdpmonTest};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Titles of the histograms, by number.
const TITLES: [&str; 5] = [
    "Time between frames 0.1us",
    "Lost-frame sequence",
    "Out-of-order",
    "hwsystem Time between frames ns",
    "hwraw Time between frames ns",
];
/// What the path adds to a packet's UDP payload over Ethernet, bytes: gap 12, preamble 8, header 14, check 4, UDP 8, and IP.
const AROUND: u64 = 46;
/// Shortest frame without preamble and gap, and what of it is around IP.
const SHORTEST: u64 = 64;
const FRAME: u64 = 18;

/// Prints a run as UDPmon's programs do.
#[derive(Clone, Debug)]
pub struct Face {
    spec: Spec,
    /// The far end's address.
    remote: String,
    /// This host's name.
    local: String,
    started: Wall,
    titled: bool,
    /// Of each peer at a receiver: what was told last, and lines.
    told: HashMap<String, UdpmonCounts>,
    lines: u64,
    /// A test over TCP, until the kernel's word about its connection has come.
    held: Option<Box<UdpmonTest>>,
}

impl Face {
    /// The face of a run that is about to begin; `remote` is the far end's address.
    #[must_use]
    pub fn new(spec: Spec, remote: String) -> Face {
        Face {
            spec,
            remote,
            local: String::new(),
            started: Wall(0),
            titled: false,
            told: HashMap::new(),
            lines: 0,
            held: None,
        }
    }

    /// Takes an event in and prints what it is worth.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn hear(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match event {
            Event::Begin(begin) => {
                self.local.clone_from(&begin.host.name);
                self.started = begin.started;
                self.banner(out)?;
            }
            Event::Udpmon(test) if self.spec.program == Program::TcpMon => self.held = Some(test.clone()),
            Event::Udpmon(test) => self.test(test, out)?,
            Event::Connection(_) | Event::PhaseEnd { .. } => {
                let Some(mut test) = self.held.take() else { return Ok(()) };
                if let Event::Connection(record) = event {
                    test.retransmitted = record.tcp.as_ref().map(|tcp| tcp.retransmits.into());
                }
                self.test(&test, out)?;
            }
            Event::Notice { level: Level::Info, text } if self.spec.verbose => writeln!(out, " {text}")?,
            _ => return Ok(()),
        }
        out.flush()
    }

    fn banner(&self, out: &mut dyn Write) -> io::Result<()> {
        let spec = &self.spec;
        if spec.quiet {
            return Ok(());
        }
        if spec.program.tcp() {
            return super::tcp::banner(spec, &date(self.started), &self.remote, out);
        }
        let cpus = if matches!(spec.program, Program::BwMon | Program::Send) { " CPUs" } else { " " };
        writeln!(
            out,
            " {} :  UDPmon Version 1.5.2 {cpus} Command line:  {} ",
            date(self.started),
            spec.command
        )?;
        if spec.program.serves() {
            writeln!(out, " The UDP port is   {} {:x}", spec.port, spec.port)?;
            return Ok(());
        }
        writeln!(out, " The destination IP name: {} IP address: {}", spec.host, self.remote)?;
        match (spec.program, spec.from) {
            (Program::Req, _) => {
                writeln!(out, " The destination UDP port is   {} {:x}", spec.port, spec.port)?;
                return writeln!(
                    out,
                    "response len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num \
                     timeouts; "
                );
            }
            (_, Some(from)) => writeln!(
                out,
                " The destination UDP port is   {} {:x}  The source UDP port is  {from} {from:x} ",
                spec.port, spec.port
            )?,
            (_, None) => writeln!(out, " The destination UDP port is   {} {:x}  ", spec.port, spec.port)?,
        }
        write!(out, " {} bytes\n ", spec.udpmon.size)
    }

    fn test(&mut self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        match self.spec.program {
            Program::BwMon => self.bw_mon(test, out),
            Program::Req => self.req(test, out),
            Program::Send => self.send(test, out),
            Program::Recv => self.recv(test, out),
            Program::Resp | Program::TcpResp => self.resp(test, out),
            Program::TcpMon => super::tcp::line(&self.spec, test, out),
        }
    }

    fn bw_mon(&mut self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        let spec = &self.spec;
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            writeln!(out, "{}", bw_mon_titles(spec, test))?;
        }
        if spec.quiet {
            let seconds = test.started.0.div_euclid(SECOND as i64);
            write!(out, " {seconds} ; local ; {} ; {} ; {} ;", self.local, self.remote, spec.host)?;
        }
        writeln!(out, "{}  ", bw_mon_line(spec, test))?;
        let Some(gaps) = test.gaps.as_ref().filter(|_| spec.udpmon.histograms) else {
            return self.records(test, out);
        };
        tables::histogram(0, TITLES[0], gaps, out)?;
        for (n, hist) in test.others.iter().enumerate().map(|(n, hist)| (n + 1, hist)) {
            tables::histogram(n, TITLES.get(n).copied().unwrap_or_default(), hist, out)?;
        }
        self.records(test, out)
    }

    fn records(&self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        match self.spec.udpmon.records {
            UdpmonRecords::None => Ok(()),
            UdpmonRecords::Packets { skip, .. } => tables::records(test, skip, self.spec.as_original, out),
            UdpmonRecords::Lost { skip, n } => tables::lost(test, skip, n, self.spec.as_original, out),
        }
    }

    fn req(&self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        let Some(latency) = &test.latency else { return Ok(()) };
        let us = |ns: u64| ns as f64 / 1_000.0;
        let requests = latency.count.max(1) as f64;
        writeln!(
            out,
            " {};  {};  {};   {};  {};  {:7.3};  {:6.2};  {:7.3}; {} ",
            latency.response,
            test.size,
            latency.count,
            latency.missing,
            g(us(latency.total_ns) / requests, 6),
            us(latency.sum_ns) / requests,
            us(latency.min_ns),
            us(latency.max_ns),
            latency.missing
        )?;
        if !self.spec.udpmon.histograms {
            return Ok(());
        }
        tables::histogram(0, "Time per req-resp us", &latency.histogram, out)?;
        tables::histogram_shape(&latency.histogram, self.spec.as_original, out)
    }

    fn send(&mut self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        let spec = &self.spec;
        if !spec.quiet && !std::mem::replace(&mut self.titled, true) {
            writeln!(
                out,
                " pkt len; num_sent; Time/frame us; wait_time; Send time; send_data_rate Mbit;{}{}",
                tables::cpu_titles('L', &test.near.cpus),
                tables::net_titles('L', spec.v6)
            )?;
        }
        let Sent { us, frame, mbit } = sent(spec, test);
        writeln!(
            out,
            " {}; {};   {};   {};   {};   {}; {}{}  ",
            test.size,
            test.sent,
            g(frame, 6),
            g(f64::from(test.wait) / 10.0, 6),
            us as u64,
            g(mbit, 6),
            tables::cpus('L', &test.near.cpus),
            tables::net('L', &test.near, spec.v6)
        )
    }

    /// A receiver's line: what came since the line before. There is one for each sender.
    fn recv(&mut self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        let Some(now) = test.counts else { return Ok(()) };
        if !std::mem::replace(&mut self.titled, true) {
            writeln!(
                out,
                "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
                 Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; sender; "
            )?;
        }
        let before = self.told.insert(test.peer.clone(), now).unwrap_or_default();
        let delta = UdpmonCounts {
            received: now.received - before.received.min(now.received),
            lost: now.lost - before.lost.min(now.lost),
            bad_order: now.bad_order - before.bad_order.min(now.bad_order),
            bytes: now.bytes - before.bytes.min(now.bytes),
            span: now.span - before.span,
        };
        let every = self.spec.udpmon.every_ns.unwrap_or(0);
        let seconds = (test.started.0 as f64 + now.span as f64 * 100.0) / 1e9;
        let hours = self.lines as f64 * every as f64 / 3.6e12;
        let each = delta.bytes.checked_div(delta.received).unwrap_or(0);
        let ip = u64::from(self.spec.v6) * 20 + 20;
        let Got { pace, mbit, wire, .. } = got(&delta, each, ip, self.spec.as_original);
        // Of what was sent, as far as that is known here.
        let share = percent(delta.lost, delta.received + if self.spec.as_original { 0 } else { delta.lost });
        writeln!(
            out,
            " {}; {}; {:.6}; {}; {}; {}; {}; {}; {}; {}; {}; {each}; {}; {}; {}; {}; {}; ",
            self.lines,
            seconds as u64,
            seconds / 86_400.0 + 25_569.0,
            g(hours, 6),
            delta.received,
            delta.lost,
            delta.bad_order,
            g(share, 2),
            delta.lost,
            g(share, 2),
            delta.bytes,
            g(now.span as f64 / 10.0, 6),
            g(pace, 6),
            g(mbit, 6),
            g(wire, 6),
            test.peer
        )?;
        self.lines += 1;
        if !test.over {
            return Ok(());
        }
        self.told.remove(&test.peer);
        if self.spec.udpmon.histograms {
            let hists = test.gaps.iter().chain(&test.others);
            let most = if self.spec.udpmon.stamps { 5 } else { 3 };
            for (n, hist) in hists.enumerate().take(most) {
                tables::histogram(n, TITLES.get(n).copied().unwrap_or_default(), hist, out)?;
            }
        }
        self.records(test, out)
    }

    /// A responder says nothing of its tests, unless it is to tell more.
    fn resp(&self, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
        let Some(counts) = test.counts.filter(|_| self.spec.verbose) else { return Ok(()) };
        writeln!(
            out,
            " From host: {}\nnum_recv: {}\nnum_lost: {}\nnum_badorder: {}\ntime us: {}",
            test.peer,
            counts.received,
            counts.lost,
            counts.bad_order,
            g(counts.span as f64 / 10.0, 6)
        )
    }
}

/// The titles of a line of `udpmon_bw_mon`.
fn bw_mon_titles(spec: &Spec, test: &UdpmonTest) -> String {
    let mut text = " pkt len; num_sent;".to_owned();
    let extended = |text: &mut String, more: &str| {
        if spec.extended {
            text.push_str(more);
        }
    };
    extended(&mut text, " num_ACKs recv; num_timeout; Time/frame us;");
    text.push_str(" inter-pkt_time us;");
    extended(&mut text, " Send time;");
    text.push_str(
        " send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet;",
    );
    extended(&mut text, " Recv time; time/recv pkt;");
    text.push_str(" recv_user_data_rate Mbit; recv_wire_rate Mbit;");
    extended(&mut text, " num_in_hist; mean; sigma; skew; kurtosis; median; iq25; iq75;");
    if spec.extended {
        text.push_str(&tables::cpu_titles('L', &test.near.cpus));
        text.push_str(&tables::cpu_titles('R', &test.far.cpus));
        text.push_str(&tables::net_titles('L', spec.v6));
        text.push_str(&tables::net_titles('R', spec.v6));
        text.push_str(&tables::card_titles('R'));
    }
    text
}

/// How long sending took (µs), for each packet, and the rate.
struct Sent {
    us: f64,
    frame: f64,
    mbit: f64,
}

fn sent(spec: &Spec, test: &UdpmonTest) -> Sent {
    // With bursts the original divides what all of them sent by the time of the last.
    let ns = if spec.as_original { test.last_burst_ns } else { test.send_ns };
    let (us, packets) = ((ns / 1_000) as f64, test.sent as f64);
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    Sent { us, frame: over(us, packets), mbit: over(8.0 * f64::from(test.size) * packets, us) }
}

/// How long receiving took (µs), for each packet, and the rates.
struct Got {
    us: f64,
    pace: f64,
    mbit: f64,
    wire: f64,
}

/// `ip` is the length of an IP header. Between the first of N packets and the last there are N - 1; the original counts N.
fn got(counts: &UdpmonCounts, size: u64, ip: u64, as_original: bool) -> Got {
    let us = counts.span as f64 / 10.0;
    let packets = if as_original { counts.received.max(1) } else { counts.received.saturating_sub(1) } as f64;
    let over = |a: f64, b: f64| if b > 0.0 || as_original { a / b } else { 0.0 };
    let around = if as_original { AROUND + 20 } else { AROUND + ip };
    // A frame that would be shorter is filled up.
    let short = if as_original { 0 } else { SHORTEST.saturating_sub(FRAME + ip + 8 + size) };
    Got {
        us,
        pace: over(us, packets),
        mbit: over(8.0 * size as f64 * packets, us),
        wire: over(8.0 * (size + around + short) as f64 * packets, us),
    }
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}

/// A line of `udpmon_bw_mon`.
fn bw_mon_line(spec: &Spec, test: &UdpmonTest) -> String {
    let mut text = format!(" {}; {};", test.size, test.sent);
    let Sent { us, frame, mbit } = sent(spec, test);
    let counts = test.counts.unwrap_or_default();
    let received = if spec.as_original { counts.received.max(1) } else { counts.received };
    let ip = u64::from(spec.v6) * 20 + 20;
    if spec.extended {
        let _ = write!(text, " {}; {}; {};", test.acks, test.timeouts, g(frame, 6));
    }
    let _ = write!(text, "  {}; ", g(f64::from(test.wait) / 10.0, 6));
    if spec.extended {
        let _ = write!(text, " {};", us as u64);
    }
    let share = 100.0 * (test.sent as f64 - received as f64) / test.sent.max(1) as f64;
    // What the far host's own buffers dropped was not lost by the network.
    let card = test.far.card.as_ref().and_then(|card| card.counts.get(8).copied()).filter(|n| *n > 0);
    // The original looks at IPv4's counter whatever the family.
    let errors = if spec.as_original && spec.v6 { 0 } else { test.far.ip.udp_in_errors };
    let dropped = u64::try_from(errors + card.unwrap_or(0)).unwrap_or(0);
    let network = counts.lost.saturating_sub(dropped);
    let _ = write!(
        text,
        " {}; {received}; {}; {}; {}; {network}; {};",
        g(mbit, 6),
        counts.lost,
        counts.bad_order,
        g(share, 2),
        g(percent(network, test.sent), 2)
    );
    let found = got(&UdpmonCounts { received, ..counts }, test.size.into(), ip, spec.as_original);
    if spec.extended {
        let _ = write!(text, "  {};  {};", g(found.us, 6), g(found.pace, 6));
    }
    let _ = write!(text, "  {};  {};", g(found.mbit, 6), g(found.wire, 6));
    if spec.extended {
        let shape = test.gaps.as_ref().map(|gaps| tables::shape(gaps, spec.as_original)).unwrap_or_default();
        let [mean, sigma, skew, kurtosis] =
            [shape.mean, shape.sigma, shape.skew, shape.kurtosis].map(|value| g(value, 6));
        let _ = write!(
            text,
            "  {}; {mean}; {sigma}; {skew}; {kurtosis}; {}; {}; {};",
            shape.count, shape.median, shape.q1, shape.q3
        );
        text.push_str(&tables::cpus('L', &test.near.cpus));
        text.push_str(&tables::cpus('R', &test.far.cpus));
        text.push_str(&tables::net('L', &test.near, spec.v6));
        text.push_str(&tables::net('R', &test.far, spec.v6));
        text.push_str(&tables::card('R', &test.far));
    }
    text
}

/// A day and time as `ctime` has them, in UTC.
fn date(at: Wall) -> String {
    let seconds = at.0.div_euclid(SECOND as i64);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from the civil calendar, turned around: years begin in March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = (march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let week = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
    let month = name[month as usize];
    format!("{week} {month} {day:2} {:02}:{:02}:{:02} {year}", second / 3_600, second / 60 % 60, second % 60)
}

/// Prints a saved run as the programs would have printed it.
///
/// # Errors
/// Always: an outcome keeps what trains tell, not UDPmon's tests.
pub fn print(_: &Outcome, _: &[Event], _: &mut dyn Write) -> io::Result<()> {
    Err(io::Error::other("an outcome keeps no tests of UDPmon: let udpmon_bw_mon print them as they come"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udpmon::{Asked, read};
    use metrics::Binned;
    use model::{
        UdpmonClock, UdpmonCpu, UdpmonHost, UdpmonInterface, UdpmonIp, UdpmonLatency, UdpmonLost,
        UdpmonRecord,
    };

    fn face(program: Program, words: &str) -> Face {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match read(program, &words) {
            Ok(Asked::Run(spec)) => Face::new(*spec, "127.0.0.1".to_owned()),
            other => panic!("{other:?}"),
        }
    }

    fn said(face: &mut Face, test: UdpmonTest) -> String {
        let mut out = Vec::new();
        face.hear(&Event::Udpmon(Box::new(test)), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What udpmon_bw_mon 1.5.2 was told in a test on loopback (`-p 1000 -w 20 -l 60 -H -x -B 5`), and printed.
    fn captured() -> UdpmonTest {
        let mut gaps = Binned::new(0, 5, 150);
        for (bin, n) in [
            (9, 3),
            (10, 2),
            (11, 1),
            (23, 1),
            (28, 1),
            (34, 1),
            (35, 1),
            (36, 2),
            (38, 1),
            (39, 18),
            (40, 21),
            (41, 3),
            (44, 2),
            (62, 1),
            (133, 1),
        ] {
            gaps.bins[bin] = n;
        }
        (gaps.over, gaps.sum) = (1, 11_298);
        let cpu = |user, system, idle| UdpmonCpu { user, system, idle, ..UdpmonCpu::default() };
        let host = |n: i64, bytes: i64| UdpmonHost {
            interfaces: vec![
                UdpmonInterface { name: "lo".into(), counts: [n, bytes, 0, 0, n, bytes, 0, 0] },
                UdpmonInterface { name: "va".into(), counts: [0; 8] },
            ],
            ip: UdpmonIp { in_receives: n, out_requests: n, udp_in: n, udp_out: n, ..UdpmonIp::default() },
            ..UdpmonHost::default()
        };
        UdpmonTest {
            size: 1000,
            wait: 200,
            sent: 60,
            send_ns: 1_297_000,
            last_burst_ns: 1_297_000,
            counts: Some(UdpmonCounts { received: 60, span: 11_336, ..UdpmonCounts::default() }),
            gaps: Some(gaps),
            near: UdpmonHost { cpus: vec![cpu(0, 0, 0); 3], ..host(60, 61_680) },
            far: UdpmonHost { cpus: vec![cpu(4, 9, 85), cpu(6, 8, 84), cpu(4, 9, 87)], ..host(62, 62_152) },
            over: true,
            ..UdpmonTest::default()
        }
    }

    // The printouts below are those of UDPmon 1.5.2 (908569c, libhj 4.9.5) on loopback, to the byte, but where it says otherwise.

    #[test]
    fn the_extended_line_is_the_originals() {
        let mut face = face(Program::BwMon, "-d 127.0.0.1 -p 1000 -w 20 -l 60 -x -B 5 --as-original");
        let text = said(&mut face, captured());
        let (titles, line) = text.split_once('\n').unwrap();
        assert!(titles.starts_with(" pkt len; num_sent; num_ACKs recv; num_timeout; Time/frame us; inter-pkt_time us; Send time; send_user_data_rate Mbit; num_recv;"));
        assert!(titles.contains("iq75; <L CPU>; user cpu %; low-prio cpu %; kernel cpu%; idle cpu%; iowait cpu %; irq cpu%; softirq cpu%;; L0 CPU; user"));
        assert!(
            titles.contains("softirq cpu%; <R CPU>;")
                && titles.contains("softirq cpu%; L if; interface:; pktsin;")
        );
        assert!(titles.ends_with("rx_crc_errors_phy; rx_out_of_buffer;"));
        let original = " 1000; 60; 0; 0; 21.6167;  20;  1297; 370.085; 60; 0; 0; 0; 0; 0;  1133.6;  18.8933;  423.43;  451.376;  59; \
             191.492; 79.6944; 3.00225; 141545; 195; 195; 200;L ; 0; 0; 0; 0; 0; 0; 0; ;L0 ; 0; 0; 0; 0; 0; 0; 0; ;L1 ; 0; 0; 0; 0; 0; 0; 0; \
             ;R ; 4; 0; 9; 85; 0; 0; 0; ;R0 ; 6; 0; 8; 84; 0; 0; 0; ;R1 ; 4; 0; 9; 87; 0; 0; 0; ;L if;    lo: ; 60; 61680; 0; 0; 60; 61680; 0; \
             0;    va: ; 0; 0; 0; 0; 0; 0; 0; 0;L snmp; 60; 0; 60; 0; 60; 0; 60;R if;    lo: ; 62; 62152; 0; 0; 62; 62152; 0; 0;    va: ; 0; 0; \
             0; 0; 0; 0; 0; 0;R snmp; 62; 0; 62; 0; 62; 0; 62; R NIC; ;  \n";
        assert_eq!(line, original);
    }

    #[test]
    fn our_own_figures_are_right() {
        // 60 packets have 59 gaps: 8 × 1000 × 59 bits in 1133.6 µs.
        let mut face = face(Program::BwMon, "-d 127.0.0.1 -p 1000 -w 20 -l 60 -x -B 5");
        let text = said(&mut face, captured());
        assert!(text.contains("  1133.6;  19.2136;  416.373;  443.853;"), "{text}");
        // The fourth moment over the square of the variance: 19.62, not 141545.
        let kurtosis: f64 = text.lines().nth(1).unwrap().split(';').nth(22).unwrap().trim().parse().unwrap();
        assert!((19.6..19.7).contains(&kurtosis), "{kurtosis}");
        // A test with 3 + 1 packets dropped, one repeated and two late of 100.
        let counts =
            UdpmonCounts { received: 97, lost: 6, bad_order: 3, span: 299_000, ..UdpmonCounts::default() };
        let test = UdpmonTest {
            size: 300,
            wait: 3000,
            sent: 100,
            send_ns: 33_401_000,
            counts: Some(counts),
            ..UdpmonTest::default()
        };
        let line = bw_mon_line(&face.spec, &test);
        assert!(line.contains("; 97; 6; 3; 3; 6; 6;"), "{line}");
    }

    #[test]
    fn bursts_are_divided_by_their_own_time() {
        // Five bursts of ten; the original printed 1923.08 Mbit/s for the time of the last, 104 µs.
        let test = UdpmonTest {
            size: 500,
            wait: 100,
            sent: 50,
            send_ns: 4_386_000,
            last_burst_ns: 104_000,
            ..UdpmonTest::default()
        };
        let line = |words: &str| bw_mon_line(&face(Program::BwMon, words).spec, &test);
        assert!(line("-d h -p 500 --as-original").starts_with(" 500; 50;  10;  1923.08;"));
        assert!(line("-d h -p 500").starts_with(" 500; 50;  10;  45.5996;"), "{}", line("-d h -p 500"));
    }

    #[test]
    fn histograms_and_records_are_the_originals() {
        let mut mon = face(Program::BwMon, "-d 127.0.0.1 -p 200 -w 50 -l 40 -G 5:20 -H --as-original");
        let mut test = captured();
        let row = |received, sent| UdpmonRecord { received, sent, ..UdpmonRecord::default() };
        test.records = vec![row(79_226, 77_145), row(79_820, 77_645), row(0, 0), row(82_409, 80_339)];
        test.clock = Some(UdpmonClock { original: (1.000_401, -198.5), ..UdpmonClock::default() });
        let text = said(&mut mon, test);
        assert!(text.contains("Hist        0 Time between frames 0.1us\n counts 59 mean 191.49 underflows 0 overflows 1\n0 ; 0\n5 ; 0\n"));
        assert!(text.contains("\n195 ; 18\n200 ; 21\n205 ; 3\n"));
        assert!(text.contains(" num packets skipped =; 5\npacket; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv_time us; delta send_time us; delta 1-way time us; ;HW system time ns; HW raw time ns; ;delta HW system time us; delta HW raw time us;  \n"));
        let rows: Vec<&str> = text.lines().rev().take(5).collect();
        assert!(rows[4].starts_with(" 6; 79226; 77145; 2081; 12.") && rows[3].is_empty(), "{rows:?}");
        assert!(
            rows[2].starts_with(" 7; 79820; 77645; 2175; 2")
                && rows[2].contains("; ; 59.4; 50; 9.42")
                && rows[2].ends_with("; ; 0; 0; ; 0; 0; ;"),
            "{rows:?}"
        );
        assert_eq!(rows[1], " 8; 0; 0; 0; 0; ; 0; 0; 0; ; 0; 0; ;");
    }

    #[test]
    fn lost_packets_are_the_originals() {
        let mut mon = face(Program::BwMon, "-d 127.0.0.1 -L 10 --as-original");
        let row = |received, sent, number| UdpmonLost { received, sent, number };
        let lost = vec![
            row(97_698, 91_164, 10),
            row(97_698, 91_164, 11),
            row(97_698, 91_164, 12),
            row(165_061, 151_239, 30),
        ];
        let text = said(&mut mon, UdpmonTest { lost, ..UdpmonTest::default() });
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert!(
            rows[0].starts_with(" 1; 97698; 91164; 6534; ")
                && rows[0].ends_with("; 10; ; 9769.8; 9116.4; 10"),
            "{rows:?}"
        );
        assert!(
            rows[1].ends_with("; 11; ; 0; 0; 1") && rows[3].ends_with("; 30; ; 6736.3; 6007.5; 18"),
            "{rows:?}"
        );
        assert_eq!((rows.len(), rows[4]), (10, " 5; 0; 0; 0; 0; 0; ; -16506.1; -15123.9; -30"));
    }

    #[test]
    fn latencies_are_the_originals() {
        let mut req = face(Program::Req, "-d 10.77.0.2 -r 200 -l 100");
        let latency = UdpmonLatency {
            response: 200,
            count: 100,
            total_ns: 14_430_000,
            sum_ns: 14_424_100,
            min_ns: 12_090,
            max_ns: 10_674_411,
            ..UdpmonLatency::default()
        };
        let test = UdpmonTest { size: 64, latency: Some(latency), ..UdpmonTest::default() };
        assert_eq!(said(&mut req, test), " 200;  64;  100;   0;  144.3;  144.241;   12.09;  10674.411; 0 \n");
    }

    #[test]
    fn dates_are_those_of_ctime() {
        // 1795148542 is Fri Nov 20 04:22:22 2026 UTC.
        assert_eq!(date(Wall(1_795_148_542 * 1_000_000_000)), "Fri Nov 20 04:22:22 2026");
        assert_eq!(date(Wall(0)), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(Wall(951_782_400 * 1_000_000_000)), "Tue Feb 29 00:00:00 2000");
    }
}
