//! tcpmon 2.2.1: `tcpmon_mon` and `tcpmon_resp`.

use super::args::Spec;
use super::number::g;
use super::tables;
use model::UdpmonTest;
use std::io::{self, Write};

/// What stands before the results.
pub(super) fn banner(spec: &Spec, date: &str, remote: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, " {date} :  TCPmon Version 2.2.1  CPUs Command line:  {} ", spec.command)?;
    if spec.program.serves() {
        return writeln!(out, " The TCP port is   {} {:x}", spec.port, spec.port);
    }
    writeln!(out, " The destination IP name: {} IP address: {remote}", spec.host)?;
    writeln!(out, " The destination TCP port is   {} {:x}", spec.port, spec.port)?;
    writeln!(out, " {} bytes; ", spec.udpmon.size)
}

/// The titles and the line of a test.
pub(super) fn line(spec: &Spec, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
    if !spec.quiet {
        titles(spec, test, out)?;
    }
    let counts = test.counts.unwrap_or_default();
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let us = test.send_ns as f64 / 1_000.0;
    let (sent, size) = (test.sent as f64, f64::from(test.size));
    let segments = test.near.ip.tcp_out;
    let again = test.retransmitted.map_or_else(|| " - ".to_owned(), |n| n.to_string());
    let rate = over(100.0 * test.retransmitted.unwrap_or(0) as f64, segments as f64);
    write!(
        out,
        " {};  {};  {};   {};   {};   {};   {};   {segments};  {again};   {};   ;",
        test.size,
        spec.buffer.unwrap_or(0),
        test.sent,
        g(f64::from(test.wait) / 10.0, 6),
        g(over(us, sent), 6),
        g(us, 6),
        g(over(8.0 * size * sent, us), 6),
        g(rate, 6)
    )?;
    // The receiver's time runs from the end of the first message, which is not in it; the original counts it.
    let (span, first) = (counts.span as f64 / 10.0, if spec.as_original { 0.0 } else { 1.0 });
    let received = (counts.received as f64 - first).max(0.0);
    write!(
        out,
        " 0;  {};  {};   {};   {};   {};   ;",
        counts.received,
        counts.bytes,
        g(over(span, received), 6),
        span as u64,
        g(over((counts.bytes as f64 - first * size).max(0.0) * 8.0, span), 6)
    )?;
    let (interfaces_apart, cpus_apart) = spec.apart;
    for (end, host) in [('L', &test.near), ('R', &test.far)] {
        let net = if interfaces_apart { String::new() } else { tables::interfaces(end, host) };
        write!(out, "{net}{}", tables::tcp(end, host))?;
    }
    write!(out, "{}{}", tables::card('R', &test.far), tables::card('R', &test.far))?;
    if !cpus_apart {
        write!(out, "{}{}", tables::cpus('L', &test.near.cpus), tables::cpus('R', &test.far.cpus))?;
    }
    writeln!(out, "  ")?;
    if interfaces_apart {
        for (end, host) in [('L', &test.near), ('R', &test.far)] {
            tables::interface_table(end, host, out)?;
        }
    }
    if cpus_apart {
        for (end, host) in [('L', &test.near), ('R', &test.far)] {
            writeln!(out, "{}", tables::cpu_titles(end, host.cpus.get(..1).unwrap_or_default()))?;
            tables::cpus(end, &host.cpus).split_inclusive(" ;").try_for_each(|row| writeln!(out, "{row}"))?;
        }
    }
    Ok(())
}

fn titles(spec: &Spec, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        " pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; \
         tcpi_total_retrans; tcp_retrans_rate%;  ; Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; \
         recv_data_rate Mbit;  ;"
    )?;
    let (interfaces_apart, cpus_apart) = spec.apart;
    for end in ['L', 'R'] {
        let net = if interfaces_apart { String::new() } else { tables::interface_titles(end) };
        write!(out, "{net}{end} TCP; TCPInSegs; TCPInErrs; TCPOutSegs; TCPOutRsts; TCPRetransSegs;")?;
    }
    write!(out, "{}{}", tables::card_titles('R'), tables::card_titles('R'))?;
    if !cpus_apart {
        let (near, far) = (tables::cpu_titles('L', &test.near.cpus), tables::cpu_titles('R', &test.far.cpus));
        write!(out, "{near}  ;{far}")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udpmon::{Asked, Program, read};
    use model::{UdpmonCounts, UdpmonCpu, UdpmonHost, UdpmonInterface, UdpmonIp};

    #[test]
    fn the_line_is_the_originals() {
        let words: Vec<String> =
            "-d 127.0.0.1 -p 1000 -w 100 -l 40 --as-original".split(' ').map(str::to_owned).collect();
        let Ok(Asked::Run(spec)) = read(Program::TcpMon, &words) else { panic!() };
        let cpu =
            |user, system, idle, softirq| UdpmonCpu { user, system, idle, softirq, ..UdpmonCpu::default() };
        let host = |n: i64, bytes: i64, cpus| UdpmonHost {
            cpus,
            interfaces: vec![
                UdpmonInterface { name: "lo".into(), counts: [n, bytes, 0, 0, n, bytes, 0, 0] },
                UdpmonInterface { name: "va".into(), counts: [0; 8] },
            ],
            ip: UdpmonIp { tcp_in: n, tcp_out: n, ..UdpmonIp::default() },
            card: None,
        };
        let test = UdpmonTest {
            size: 1000,
            wait: 1000,
            sent: 40,
            send_ns: 12_736_700,
            retransmitted: Some(0),
            counts: Some(UdpmonCounts {
                received: 40,
                bytes: 40_000,
                span: 120_110,
                ..UdpmonCounts::default()
            }),
            near: host(80, 44_160, vec![cpu(25, 75, 0, 50), cpu(0, 100, 0, 100), cpu(50, 50, 0, 0)]),
            far: host(82, 44_408, vec![cpu(60, 39, 0, 11), cpu(55, 44, 0, 19), cpu(65, 34, 0, 4)]),
            ..UdpmonTest::default()
        };
        let mut out = Vec::new();
        line(&spec, &test, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (titles, line) = text.split_once('\n').unwrap();
        assert!(titles.starts_with(" pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; tcpi_total_retrans; tcp_retrans_rate%;  ; Recv"));
        assert!(
            titles.contains("recv_data_rate Mbit;  ; L if; interface:; pktsin;")
                && titles.contains("dropout;L TCP; TCPInSegs;")
        );
        assert!(titles.contains("softirq cpu%;  ; <R CPU>;"));
        // As tcpmon_mon 2.2.1 printed it on loopback.
        let original = " 1000;  0;  40;   100;   318.418;   12736.7;   25.1242;   80;  0;   0;   ; 0;  40;  40000;   300.275;   12011;   26.6422;   ;L if;    lo: ; 80; 44160; 0; 0; 80; 44160; 0; 0;    va: ; 0; 0; 0; 0; 0; 0; 0; 0;L TCP; 80; 0; 80; 0; 0;R if;    lo: ; 82; 44408; 0; 0; 82; 44408; 0; 0;    va: ; 0; 0; 0; 0; 0; 0; 0; 0;R TCP; 82; 0; 82; 0; 0; R NIC; ; R NIC; ;L ; 25; 0; 75; 0; 0; 0; 50; ;L0 ; 0; 0; 100; 0; 0; 0; 100; ;L1 ; 50; 0; 50; 0; 0; 0; 0; ;R ; 60; 0; 39; 0; 0; 0; 11; ;R0 ; 55; 0; 44; 0; 0; 0; 19; ;R1 ; 65; 0; 34; 0; 0; 0; 4; ;  \n";
        assert_eq!(line, original);
    }
}
