//! tcpmon 2.2.1: `tcpmon_mon` and `tcpmon_resp`.

use super::args::Spec;
use super::number::g;
use super::tables;
use model::{Interval, UdpmonPut, UdpmonRecords, UdpmonTest};
use std::io::{self, Write};

/// Title of the histogram of the times that messages take to be sent.
const PUTS: &str = "network put time us";

/// What stands before the results.
pub(super) fn banner(spec: &Spec, date: &str, remote: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, " {date} :  TCPmon Version 2.2.1  CPUs Command line:  {} ", spec.command)?;
    if spec.program.serves() {
        return writeln!(out, " The TCP port is   {} {:x}", spec.port, spec.port);
    }
    writeln!(out, " The destination IP name: {} IP address: {remote}", spec.host)?;
    writeln!(out, " The destination TCP port is   {} {:x}", spec.port, spec.port)?;
    if spec.udpmon.every_ns.is_some() {
        writeln!(
            out,
            "Time;\t Bytes sent;\t Rate Gbit/s;\t Retrans;\t Cwnd MBytes;\t TCPInSegs;\t TCPOutSegs "
        )?;
    }
    Ok(())
}

/// A line of `-i`: what left since the line before. The segments of the whole host are not known here.
pub(super) fn progress(interval: &Interval, out: &mut dyn Write) -> io::Result<()> {
    let ns = interval.end_ns.saturating_sub(interval.start_ns).max(1);
    let window: u64 =
        interval.samples.iter().map(|s| u64::from(s.info.cwnd) * u64::from(s.info.snd_mss)).sum();
    writeln!(
        out,
        "{}\t{}\t{:.2}\t\t{}\t\t{:.2}\t\t-\t\t-",
        (interval.end_ns + ROUND) / metrics::SECOND,
        interval.near.tx_bytes,
        interval.near.tx_bytes as f64 * 8.0 / ns as f64,
        interval.retransmits,
        window as f64 / 1e6
    )
}

/// What a clock may be behind of a whole second, ns.
const ROUND: u64 = metrics::SECOND / 100;

/// The titles and the line of a test.
pub(super) fn line(spec: &Spec, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
    if !spec.quiet {
        writeln!(out, " {} bytes; ", test.size)?;
        titles(spec, test, out)?;
    }
    let counts = test.counts.unwrap_or_default();
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    // The original's watch starts with each burst, and stops when the last message is begun.
    let us = if spec.as_original { test.last_burst_ns } else { test.send_ns } as f64 / 1_000.0;
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
    write!(out, "{}{}", tables::card('R', &test.far, 0), tables::card('R', &test.far, 1))?;
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
            let rows = tables::cpus(end, &host.cpus);
            rows.split_inclusive("; ;").try_for_each(|row| writeln!(out, "{row}"))?;
        }
    }
    if let Some(hist) = test.gaps.as_ref().filter(|_| spec.udpmon.histograms) {
        // Twice, as the original does for the sake of its spreadsheets.
        tables::histogram(0, PUTS, hist, out)?;
        tables::histogram(0, PUTS, hist, out)?;
    }
    if spec.udpmon.records == UdpmonRecords::None { Ok(()) } else { puts(test, out) }
}

/// The times that messages took to be sent, one by one. The kernel's word on TCP at each message is not asked for here.
fn puts(test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "InfoStore; network_time_us; write_blksize_bytes; send_loop; soc_fd; elapsed_time_us; recv_bufSize; send_bufSize; \
         tcpi_snd_ssthresh; tcpi_snd_cwnd_octets; tcpi_rtt; tcpi_rttvar; tcpi_retrans  "
    )?;
    for (n, UdpmonPut { took_ns, at_ns, sends }) in test.puts.iter().enumerate() {
        let (took, at) = (took_ns / 1_000, at_ns / 1_000);
        writeln!(out, "{n} ; {took} ; {} ; {sends} ; - ; {at} ; - ; - ; - ; - ; - ; - ; - ; ", test.size)?;
    }
    Ok(())
}

/// What a responder tells of a connection that has ended.
pub(super) fn received(spec: &Spec, test: &UdpmonTest, out: &mut dyn Write) -> io::Result<()> {
    let counts = test.counts.unwrap_or_default();
    let (near, over) = (&test.far, |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 });
    writeln!(
        out,
        " Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; recv_data_rate Mbit;{}{}L TCP; TCPInSegs; TCPInErrs; \
         TCPOutSegs; TCPOutRsts; TCPRetransSegs;{}{}",
        tables::cpu_titles('L', &near.cpus),
        tables::interface_titles('L'),
        tables::card_titles('L'),
        tables::card_titles('L')
    )?;
    let (span, first) = (counts.span as f64 / 10.0, if spec.as_original { 0.0 } else { 1.0 });
    let messages = (counts.received as f64 - first).max(0.0);
    // All messages of a connection are of one size but for the last.
    let bytes = counts.bytes as f64 * over(messages, counts.received as f64);
    write!(
        out,
        " {};  {};  {}  {};  {};  {}; ",
        spec.buffer.unwrap_or(0),
        counts.received,
        counts.bytes,
        g(over(span, messages), 6),
        span as u64,
        g(over(bytes * 8.0, span), 6)
    )?;
    writeln!(
        out,
        "{}{}{}{}{}",
        tables::cpus('L', &near.cpus),
        tables::interfaces('L', near),
        tables::tcp('L', near),
        tables::card('L', near, 0),
        tables::card('L', near, 1)
    )
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
#[path = "tcp_tests.rs"]
mod tests;
