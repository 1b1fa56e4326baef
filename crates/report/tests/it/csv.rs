//! What spreadsheets and scripts read. The expected rows were written by hand from the numbers in
//! `common`.

use crate::common::{Counting, STARTED, bad, begin, events, good, interval, text_of};
use metrics::{Spread, Wall};
use model::{ConnectionRecord, Event, Slot, SweepRow};
use report::EventWriter as _;
use report::{EventCsv, Rows, replay, write_sweep_csv};
use std::collections::BTreeMap;

/// The file of a table.
fn written(of: Rows, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut csv = EventCsv::new(&mut out, of).unwrap();
    events.iter().for_each(|event| csv.on_event(event).unwrap());
    drop(csv);
    out
}

fn status(events: &[Event]) -> Vec<String> {
    lines(&written(Rows::Status, events))
}

fn connections(events: &[Event]) -> Vec<String> {
    lines(&written(Rows::Connections, events))
}

fn lines(bytes: &[u8]) -> Vec<String> {
    std::str::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

/// What an interval of `common` has of datagrams, frames and messages.
const MEASURED: &str = "1000,980,15,4,6,2,5,7,3,40000,80000,80000,450,150000,\
                        1000,980,15,4,6,2,5,7,3,40000,80000,80000,450,150000,55,3,1,2,\
                        1000,8,51000,60500,59000,90000,4000000,970,0,8,2,970,0,8,2";

#[test]
fn one_row_per_interval() {
    let rows = status(&events());
    assert_eq!(rows.len(), 5);
    assert_eq!(
        rows[0],
        "label,repeat,index,start_s,end_s,end_utc,omitted,local_tx_bytes,local_tx_bps,local_rx_bytes,local_rx_bps,\
         remote_tx_bytes,remote_tx_bps,remote_rx_bytes,remote_rx_bps,in_flight,opened,completed,network_errors,data_errors,\
         retransmits,local_datagrams_sent,local_datagrams_received,local_datagrams_lost,local_datagrams_duplicated,\
         local_datagrams_reordered,local_datagrams_late,local_datagrams_corrupt,local_datagrams_unsent,\
         local_datagrams_dropped,local_delay_p50_ns,local_delay_p99_ns,local_delay_max_ns,local_jitter_ns,local_clock_bound_ns,\
         remote_datagrams_sent,remote_datagrams_received,remote_datagrams_lost,remote_datagrams_duplicated,\
         remote_datagrams_reordered,remote_datagrams_late,remote_datagrams_corrupt,remote_datagrams_unsent,\
         remote_datagrams_dropped,remote_delay_p50_ns,remote_delay_p99_ns,remote_delay_max_ns,remote_jitter_ns,remote_clock_bound_ns,\
         frames_completed,frames_dropped,frames_repeated,frames_errors,\
         messages_sent,messages_lost,rtt_min_ns,rtt_mean_ns,rtt_p50_ns,rtt_p99_ns,rtt_max_ns,\
         local_datagrams_not_ect,local_datagrams_ect1,local_datagrams_ect0,local_datagrams_ce,\
         remote_datagrams_not_ect,remote_datagrams_ect1,remote_datagrams_ect0,remote_datagrams_ce"
    );
    let counted = "buffer=65536,1,0,0.000000000,1.000000000,2026-01-02T03:04:06.000000Z,true,501000000,4008000000,125000000,\
                   1000000000,125000000,1000000000,500000000,4000000000,4,4,0,0,0,0";
    assert_eq!(rows[1], format!("{counted},{MEASURED}"));
    let counted = "buffer=65536,1,3,3.000000000,4.000000000,2026-01-02T03:04:09.000000Z,false,1501000000,12008000000,125000000,\
                   1000000000,125000000,1000000000,1500000000,12000000000,4,1,3,1,0,6";
    assert_eq!(rows[4], format!("{counted},{MEASURED}"));
}

#[test]
fn what_is_not_known_is_empty() {
    let mut silent = interval(0, 0);
    silent.remote = None;
    let rows = status(&[Event::Interval(Box::new(silent))]);
    let counted = ",0,0,0.000000000,1.000000000,,true,1000000,8000000,125000000,1000000000,,,,,4,4,0,0,0,0";
    assert_eq!(rows[1], format!("{counted},{MEASURED}"));
}

#[test]
fn without_datagrams_frames_and_messages_their_cells_are_empty() {
    let mut plain = interval(0, 0);
    (plain.packets, plain.remote_packets, plain.frames, plain.pings) = (None, None, None, None);
    let rows = status(&[Event::Interval(Box::new(plain))]);
    assert!(rows[1].ends_with(&",".repeat(47)), "{}", rows[1]);
}

#[test]
fn every_phase_has_its_own_clock() {
    let phase = || Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::default() };
    let second = || Event::Interval(Box::new(interval(0, 1)));
    let later = Event::Start { at: Wall(STARTED.0 + 60_000_000_000) };
    let start = Event::Start { at: STARTED };
    let rows = status(&[phase(), start, second(), phase(), later, second(), phase(), second()]);
    let clocks: Vec<&str> = rows[1..].iter().map(|row| row.split(',').nth(5).unwrap()).collect();
    assert_eq!(clocks, ["2026-01-02T03:04:06.000000Z", "2026-01-02T03:05:06.000000Z", ""]);
}

#[test]
fn one_row_per_connection_with_all_the_kernel_said() {
    let rows = connections(&events());
    assert_eq!(rows.len(), 3);
    assert_eq!(
        rows[0],
        "label,repeat,id,ended_s,ended_utc,local,remote,tx_bytes,tx_bps,rx_bytes,rx_bps,connect_s,duration_s,result,\
         error,rtt_us,rttvar_us,min_rtt_us,retransmits,cwnd_segments,snd_mss_bytes,ssthresh_segments,\
         delivery_rate_bytes_per_s,app_limited,busy_us,rwnd_limited_us,sndbuf_limited_us,bytes_sent,bytes_retrans,\
         reord_seen,rcv_rtt_us,snd_wnd_bytes"
    );
    // 1 MB and 500 kB in 2 s.
    assert_eq!(
        rows[1],
        "buffer=65536,1,00000000-0000-0000-0000-000000000001,2.500000000,2026-01-02T03:04:07.500000Z,10.0.0.1:40000,\
         10.0.0.2:7411,1000000,4000000,500000,2000000,0.000150000,2.000000000,completed,,201,12,101,5,77,1388,66,\
         125000000,true,4000,300,200,9000,90,2,150,65000"
    );
    assert_eq!(
        rows[2],
        "buffer=65536,1,00000000-0000-0000-0000-000000000000,3.000000000,2026-01-02T03:04:08.000000Z,,10.0.0.2:7411,\
         0,0,0,0,,0.000000000,network_error,'=connecting: Connection refused,,,,,,,,,,,,,,,,,"
    );
}

#[test]
fn every_row_is_as_wide_as_its_header() {
    let width = |line: &String| line.matches(',').count();
    for rows in [status, connections] {
        let known = width(&rows(&[])[0]);
        assert!(rows(&events()).iter().all(|line| width(line) == known), "as wide as {}", rows(&[])[0]);
    }
}

#[test]
fn text_that_a_spreadsheet_would_compute_is_guarded_and_numbers_are_not() {
    let guarded = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"].map(|evil| (evil, format!("'{evil}")));
    let quoted = "two lines,\n\"quoted\"";
    for (error, told) in guarded.into_iter().chain([(quoted, quoted.to_owned())]) {
        let record = ConnectionRecord { error: Some(error.to_owned()), ..bad() };
        let file = written(Rows::Connections, &[Event::Connection(Box::new(record))]);
        let row = csv::Reader::from_reader(&file[..]).records().next().unwrap().unwrap();
        assert_eq!(row[14], told, "{error:?}");
    }
}

#[test]
fn rows_reach_the_file_with_the_interval() {
    let counts = |writes: &[usize]| (writes.len(), writes.iter().sum::<usize>());
    let mut writes = Vec::new();
    let mut csv = EventCsv::new(Counting(&mut writes), Rows::Status).unwrap();
    csv.on_event(&Event::Interval(Box::new(interval(0, 1)))).unwrap();
    std::mem::forget(csv); // a crash: nothing is flushed
    assert_eq!(counts(&writes), (2, 2));

    let mut writes = Vec::new();
    let mut csv = EventCsv::new(Counting(&mut writes), Rows::Connections).unwrap();
    csv.on_event(&Event::Begin(Box::new(begin()))).unwrap();
    (0..3).for_each(|_| csv.on_event(&Event::Connection(Box::new(good()))).unwrap());
    csv.on_event(&Event::Interval(Box::new(interval(0, 1)))).unwrap();
    csv.on_event(&Event::Connection(Box::new(good()))).unwrap();
    std::mem::forget(csv);
    assert_eq!(counts(&writes), (2, 4), "one write for the header, one for three rows");
}

#[test]
fn a_full_disk_is_an_error_at_once() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(EventCsv::new(Full, Rows::Status).err().unwrap().kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn one_row_per_setting_of_a_sweep() {
    let label = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let spread = |n, mean| Spread { n, mean, sd: 0.5, min: mean - 1.0, max: mean + 1.0, ci95: 0.25 };
    let first = SweepRow {
        label: label(&[("buffer", "1024"), ("connections", "4")]),
        figures: [("goodput.up".to_owned(), spread(3, 1e9)), ("cpu".to_owned(), spread(3, 2.0))].into(),
        errors: 7,
        ..SweepRow::default()
    };
    let second = SweepRow {
        label: label(&[("connections", "8")]),
        figures: [("connects".to_owned(), spread(2, 500.0))].into(),
        ..SweepRow::default()
    };
    let want = "\
buffer,connections,goodput.up_runs,goodput.up_mean_bps,goodput.up_sd_bps,goodput.up_min_bps,goodput.up_max_bps,\
goodput.up_ci95_bps,connects_runs,connects_mean_per_s,connects_sd_per_s,connects_min_per_s,connects_max_per_s,\
connects_ci95_per_s,cpu_runs,cpu_mean_s_per_gb,cpu_sd_s_per_gb,cpu_min_s_per_gb,cpu_max_s_per_gb,cpu_ci95_s_per_gb,errors
1024,4,3,1000000000,0.5,999999999,1000000001,0.25,,,,,,,3,2,0.5,1,3,0.25,7
,8,,,,,,,2,500,0.5,499,501,0.25,,,,,,,0
";
    assert_eq!(text_of(|out| write_sweep_csv(&[first, second], out)), want);
}

#[test]
fn the_knee_of_datagrams_has_columns_of_its_own() {
    let slot = Slot { clock_bound_ns: Some(1_000), power: Some(150e6), knee: true };
    let row = SweepRow { down_slot: Some(slot), ..SweepRow::default() };
    let want = "errors,down_clock_bound_ns,down_power_bps_per_s,down_knee\n0,1000,150000000,true\n";
    assert_eq!(text_of(|out| write_sweep_csv(&[row], out)), want);
}

#[test]
fn a_saved_run_gives_the_same_rows() {
    let saved = replay(&crate::common::outcome());
    assert_eq!(status(&saved), status(&events()));
    assert_eq!(connections(&saved), connections(&events()));
}
