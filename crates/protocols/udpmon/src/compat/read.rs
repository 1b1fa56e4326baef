//! UDPmon's and tcpmon's own tables: the lines of `udpmon_bw_mon`, `udpmon_send`, `udpmon_recv`,
//! `udpmon_req` and `tcpmon_mon`, of one file or of a sweep over many.

fn columns(line: &str) -> Vec<&str> {
    line.split(';').map(str::trim).collect()
}

/// True if a line heads a table of the programs.
fn heads(line: &str) -> bool {
    let first = line.trim_start();
    ["pkt len; num_sent;", TCP, RECV, "response len bytes;"].iter().any(|title| first.starts_with(title))
}

/// Beginnings of the tables of tcpmon and of `udpmon_recv`.
const TCP: &str = "pkt len; soc_buf_size; num_sent;";
const RECV: &str = "num; linux time; excel time; hour; num_recv; num_lost;";

/// Number of columns of a table that are figures of every row, 8 at most: the ones before the first
/// that heads a host's counters.
fn figures(titles: &[&str]) -> usize {
    titles.iter().take(8).take_while(|title| !title.is_empty() && !title.starts_with('<')).count()
}

/// True if a file is a printout of one of the programs.
pub(super) fn is_table(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(8192)];
    String::from_utf8_lossy(start).lines().any(heads)
}

/// One table: its titles, and its rows.
pub(super) struct ReadTable<'a> {
    /// Its rates are of as many packets as there are gaps: it was printed by this program.
    pub(super) right: bool,
    pub(super) titles: Vec<&'a str>,
    pub(super) rows: Vec<Vec<&'a str>>,
}

/// True if a printout is of this program's counterparts, with their own arithmetic: their heading
/// is the originals', but has no cores.
fn is_ours(text: &str) -> bool {
    let heading = text.lines().find(|line| line.contains("mon Version "));
    heading.is_some_and(|line| !line.contains("--as-original")) && !text.contains(" affinity: ")
}

pub(super) fn tables(text: &str) -> Vec<ReadTable<'_>> {
    let mut found: Vec<ReadTable<'_>> = Vec::new();
    let right = is_ours(text);
    for line in text.lines() {
        if heads(line) {
            found.push(ReadTable { right, titles: columns(line), rows: Vec::new() });
            continue;
        }
        let Some(table) = found.last_mut() else { continue };
        let row = columns(line);
        // Histograms and the kernel's figures of each message follow with fewer columns, and other
        // records with gaps between theirs.
        let figures = figures(&table.titles);
        let number = |cell: &&str| cell.parse::<f64>().is_ok();
        let whole = row.len() > figures.max(table.titles.len() / 2);
        if figures > 4 && whole && row[..figures].iter().all(number) {
            table.rows.push(row);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines of UDPmon 1.5.2 on loopback.
    const SWEEP: &str = " 600 bytes\n  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n 600; 40;  30;  156.991; 40; 0; 0; 0; 0; 0;  161.331;  179.077;  \n\
        Hist        0 Time between frames 0.1us\n counts 59 mean 191.49 underflows 0 overflows 1\n0 ; 0\n";

    #[test]
    fn a_sweep_is_read() {
        assert!(is_table(SWEEP.as_bytes()) && !is_table(b"pkt; 5\n") && !is_table(&[0xff; 100]));
        let all = tables(SWEEP);
        assert_eq!((all.len(), all[0].rows.len()), (1, 2));
        assert_eq!(all[0].rows[0][..4], ["600", "40", "0", "1288.59"]);
        assert_eq!(all[0].rows[1][10], "161.331");
    }

    #[test]
    fn records_are_no_tests_and_the_others_tables_are_read() {
        // Lines of UDPmon 1.5.2 and tcpmon 2.2.1 on loopback, without the counters of the hosts.
        let rows = |text: &str| -> Vec<Vec<String>> {
            let owned = |row: &Vec<&str>| row.iter().map(ToString::to_string).collect();
            tables(text).iter().flat_map(|table| table.rows.iter().map(owned)).collect()
        };
        let records = format!(
            "{}packet; recv_time 0.1us; send_time 0.1us; diff 0.1us; 1-way time us; ;delta recv us\n 6; 78883; 66708; 12175; 27.2536; ;\n \
             7; 79086; 66909; 12177; 27.5083; ; 20.3; 20.1; 0.254645; ; 0; 0; ; 0; 0; ;\n 1; 0; 0; 0; 0; 0; ; 0; 0; 0\n",
            SWEEP
        );
        assert_eq!(rows(&records).len(), rows(SWEEP).len());
        let recv = "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes Recv; \
            Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; <L CPU>; user cpu %\n \
            0; 1795203358; 46346.816653; 0; 100; 0; 0; 0; 0; 0; 100000; 1000; 4898.34; 48.9834; 163.321; 174.1;L ; 16; 0;\n";
        assert_eq!(rows(recv)[0][..5], ["0", "1795203358", "46346.816653", "0", "100"]);
        let tcp = " pkt len; soc_buf_size; num_sent; wait_time; Time/frame us; Send_time; send_data_rate Mbit; TCPOutSegs; \
            tcpi_total_retrans; tcp_retrans_rate%;  ; Recv soc_buf_size; num_recv; bytes_recv; Recv time/Frame; recv_time; recv_data_rate \
            Mbit;  ; L if; interface:;\n 10000;  0;  26501;   100;   150.922;   3.99958e+06;   530.076;   31072;  1;   0.00321833;   ; 0;  \
            26501;  265010000;   113.184;   2999491;   706.813;   ;L if;    lo: ;\n";
        assert_eq!(rows(tcp)[0][..4], ["10000", "0", "26501", "100"]);
        let watched = format!(
            "{tcp}InfoStore; network_time_us; write_blksize_bytes; send_loop; soc_fd; elapsed_time_us; recv_bufSize; send_bufSize\n\
             0 ; 92 ; 1000 ; 1 ; 3 ; 0 ; 131072 ; 4194304 ; \n"
        );
        assert_eq!(rows(&watched), rows(tcp));
    }

    #[test]
    fn damaged_tables_do_no_harm() {
        for cut in 0..SWEEP.len() {
            if SWEEP.is_char_boundary(cut) {
                assert!(tables(&SWEEP[..cut]).iter().all(|table| table.rows.len() <= 2));
            }
        }
        assert!(tables("pkt len; num_sent;\n;;;;;;;;\n1;2;3;4;5;6\n")[0].rows.is_empty());
    }
}
