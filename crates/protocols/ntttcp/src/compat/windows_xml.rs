//! The XML file of Windows NTttcp 5.40 (`-xml`). KB and MB are 1024 and 1024² bytes.

use super::args::{Role, Spec};
use super::files::{Document, NamedValue, Results, Thread, parameters, row, three};
use compat::number::ratio;
use metrics::real;

/// Bytes of a KB.
const KILO: f64 = 1_024.0;
/// `bufferCount` of a timed test.
const NO_COUNT: u64 = i64::MAX.unsigned_abs();
/// Outstanding I/Os of NTttcp.
const QUEUED: u64 = 2;

/// A value of this file, without a unit.
fn plain(name: &'static str, text: impl ToString) -> NamedValue {
    row(name, "", "", text)
}

/// A value of this file, with its unit and three decimals.
fn metric(name: &'static str, unit: &'static str, n: f64) -> NamedValue {
    row(name, "", unit, three(n))
}

fn rates(bytes_per_second: f64) -> [NamedValue; 3] {
    [
        metric("throughput", "MB/s", bytes_per_second / KILO / KILO),
        metric("throughput", "mbps", bytes_per_second * 8.0 / 1e6),
        row("throughput", "", "Bps", format!("{bytes_per_second:.1}")),
    ]
}

fn thread(thread: &Thread, test_s: f64) -> Vec<NamedValue> {
    // Over the duration of the test, as in the original, so that the threads add up to the total.
    let rate = ratio(thread.bytes, test_s);
    let mut rows = vec![metric("realtime", "s", thread.seconds), metric("throughput", "KB/s", rate / KILO)];
    rows.extend(rates(rate));
    rows.push(metric("avg_bytes_per_compl", "B", ratio(thread.bytes, thread.calls)));
    rows
}

pub(super) fn document(spec: &Spec, results: &Results) -> Document {
    let Results { bytes, seconds, threads, host, .. } = results;
    let calls: u64 = threads.iter().map(|thread| thread.calls).sum();
    let each: f64 = threads.iter().map(|thread| ratio(thread.bytes, thread.calls)).sum();
    // Packets sent and received by this host during the test.
    let (sent, received) = if spec.layout.udp { host.datagrams } else { host.segments };
    let own = if spec.role == Role::Sender { sent } else { received };
    let buffers = ratio(*bytes, spec.phase().buffer.high);
    let (interrupts, deferred) = (host.all_interrupts, host.deferred);
    let mut rows = vec![
        row("total_bytes", "", "MB", format!("{:.6}", real(*bytes) / KILO / KILO)),
        row("realtime", "", "s", format!("{seconds:.6}")),
        metric("avg_bytes_per_compl", "B", ratio(*bytes, calls)),
        metric("threads_avg_bytes_per_compl", "B", ratio(each, threads.len())),
        metric("avg_frame_size", "B", ratio(*bytes, own)),
    ];
    rows.extend(rates(ratio(*bytes, *seconds)));
    rows.extend([
        plain("total_buffers", three(buffers)),
        metric("throughput", "buffers/s", ratio(buffers, *seconds)),
        metric("avg_packets_per_interrupt", "packets/interrupt", ratio(received, interrupts)),
        metric("interrupts", "count/sec", ratio(interrupts, *seconds)),
        metric("dpcs", "count/sec", ratio(deferred, *seconds)),
        metric("avg_packets_per_dpc", "packets/dpc", ratio(received, deferred)),
    ]);
    // Absent where the kernel reports no CPU clock.
    rows.extend((host.mhz > 0.0).then(|| metric("cycles", "cycles/byte", results.cycles())));
    let length = spec.buffer.unwrap_or(1).max(1);
    rows.extend([
        plain("packets_sent", sent),
        plain("packets_received", received),
        plain("packets_retransmitted", if spec.layout.udp { 0 } else { host.retransmits[0] }),
        plain("errors", results.errors),
        metric("cpu", "%", (1.0 - host.share(3)) * 100.0),
        plain("num_processors", host.cores),
        plain("bufferCount", spec.transfer.map_or(NO_COUNT, |bytes| bytes / length)),
        plain("bufferLen", length),
        plain("io", QUEUED),
    ]);
    let threads = threads.iter().map(|one| thread(one, *seconds)).collect();
    Document { version: "5.40", parameters: parameters(spec), threads, rows }
}

#[cfg(test)]
mod tests {
    use super::super::host::HostReading;
    use super::super::{files::Thread, import::read, xml};
    use super::*;
    use crate::Layout;

    /// A file of the original; its first line names the run.
    const SAMPLE: &str = include_str!("sample-windows.xml.txt");

    #[test]
    fn the_file_is_that_of_the_original() {
        let spec = Spec {
            role: Role::Sender,
            windows: true,
            verbose: true,
            layout: Layout {
                port: 7_003,
                ports: 2,
                seconds: 2,
                sync: false,
                token: true,
                ..Layout::default()
            },
            hosts: vec!["127.0.0.1".to_owned(); 2],
            buffer: Some(65_536),
            ..Spec::default()
        };
        let thread = |calls: u64| Thread { bytes: calls * 65_536, calls, seconds: 0.0 };
        let bytes = 8_523 * 65_536;
        let seconds = 2.012_752;
        let host = HostReading {
            // 99.615 % busy.
            cpu: [99_615, 0, 0, 385, 0, 0, 0, 0],
            cores: 2,
            // So that clock · 2 · 0.99615 · time / bytes is 18.637.
            mhz: 18.637 * bytes as f64 / (2.0 * 0.996_15 * seconds) / 1e6,
            segments: (25_538, 25_538),
            ..HostReading::default()
        };
        let threads = vec![thread(1_637), thread(6_886)];
        let results =
            Results { computer: "VM".to_owned(), bytes, seconds, threads, host, ..Results::default() };
        let ours = xml(&spec, &results);
        let (_, theirs) = SAMPLE.split_once('\n').unwrap();
        assert_eq!(ours.lines().count(), theirs.lines().count());
        // wine, under which it was written, counts no deferred calls.
        for (ours, theirs) in ours.lines().zip(theirs.lines()).filter(|(_, line)| !line.contains("dpc")) {
            assert_eq!(ours, theirs);
        }
        let file = compat::file::open(ours.as_bytes()).unwrap();
        let imported = read(&file.documents[0].source().unwrap()).unwrap().unwrap();
        assert_eq!((imported.program.as_str(), imported.host.as_str()), ("ntttcp 5.40", "VM"));
    }

    #[test]
    fn what_was_asked_for_is_told_as_it_was() {
        let spec = Spec {
            role: Role::Receiver,
            windows: true,
            layout: Layout { ports: 1, warmup_s: 1, seconds: 3, cooldown_s: 2, ..Layout::default() },
            rcvbuf: Some(4_096),
            // 100 KB/s, of which a ms has 102 bytes.
            thread_limit: Some(819_200),
            local: model::Address::parse("192.0.2.1"),
            transfer: Some(500 * 1_400),
            buffer: Some(1_400),
            ..Spec::default()
        };
        let text = xml(&spec, &Results::default());
        for line in [
            "<recv_socket_buff>4096</recv_socket_buff>",
            "<no_sync>True</no_sync>",
            "<run_time>3000</run_time>",
            "<warmup_time>1000</warmup_time>",
            "<cooldown_time>2000</cooldown_time>",
            "<bind_sender>True</bind_sender>",
            "<sender_name>192.0.2.1</sender_name>",
            "<throughput_Bpms>102</throughput_Bpms>",
            "<bufferCount>500</bufferCount>",
            "<bufferLen>1400</bufferLen>",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("<cycles"), "no clock is known");
    }
}
