//! What bwdelaytester wrote, the original or this program, read back: its lines, its histogram, its table.

use super::table::{COLUMNS, HISTOGRAM, SWEEP};
use std::io::{self, Write};

/// Lines of one file that are read; an hour is 36,000.
const MOST: usize = 10_000_000;

/// Whether a file holds bwdelaytester's stdout, or its stderr, or both.
#[must_use]
pub fn is_output(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let known = |line: &str| {
        let line = line.trim_end();
        line == COLUMNS.trim_end() || line == HISTOGRAM || line == SWEEP
    };
    start.lines().any(known)
}

/// All that a file holds. Whatever is none of the program's lines is left out: users cut their files.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) lines: Vec<[f64; 7]>,
    pub(super) histogram: Vec<(f64, u64)>,
    pub(super) rates: Vec<[f64; 6]>,
    restarts: u64,
    /// Lines that are none of its.
    other: u64,
}

fn row<const N: usize>(line: &str) -> Option<[f64; N]> {
    let mut row = [0.0; N];
    let mut words = line.split_ascii_whitespace();
    for place in &mut row {
        *place = words.next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    }
    words.next().is_none().then_some(row)
}

pub(super) fn read(text: &str) -> Found {
    let mut found = Found::default();
    let mut sweep = false;
    for line in text.lines().take(MOST) {
        let line = line.trim_end();
        match line {
            HISTOGRAM => sweep = false,
            SWEEP => sweep = true,
            _ if line.starts_with("WARNING: Remote restarted") => found.restarts += 1,
            _ if line.is_empty() || line.starts_with('#') || line.starts_with("First packet") => {}
            _ => {
                if let Some(row) = row::<7>(line) {
                    found.lines.push(row);
                } else if let Some(row) = row::<6>(line).filter(|_| sweep) {
                    found.rates.push(row);
                } else if let Some([edge, count, _]) = row::<3>(line).filter(|_| !sweep) {
                    found.histogram.push((edge, count.max(0.0) as u64));
                } else {
                    found.other += 1;
                }
            }
        }
    }
    found
}

/// Reports on such a file.
///
/// # Errors
/// When `out` cannot be written.
pub fn tell(name: &str, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let found = read(&String::from_utf8_lossy(bytes));
    writeln!(out, "{name}: bwdelaytester")?;
    if !found.lines.is_empty() {
        lines(&found.lines, out)?;
    }
    if !found.histogram.is_empty() {
        histogram(&found.histogram, out)?;
    }
    if !found.rates.is_empty() {
        writeln!(out, "  rate up to    loss      least     mean      largest   intervals")?;
        for [mbit, loss, min, max, avg, n] in &found.rates {
            writeln!(
                out,
                "  {mbit:>5} Mbit/s  {loss:>7.3} %  {min:>6} us  {avg:>6} us  {max:>8} us  {n:>6}"
            )?;
        }
        if found.rates.iter().all(|row| row[2] <= 0.0) {
            writeln!(
                out,
                "  the least latencies are 0 in all rows: the original's begin there, and say nothing"
            )?;
        }
    }
    if found.restarts > 0 {
        writeln!(out, "  the sender restarted, or seemed to, {} times", found.restarts)?;
    }
    if found.other > 0 {
        writeln!(out, "  {} lines are none of bwdelaytester's", found.other)?;
    }
    writeln!(out)
}

fn lines(rows: &[[f64; 7]], out: &mut dyn Write) -> io::Result<()> {
    let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>();
    // Bytes and packets are told ten times over; drops and their runs are not.
    let (bytes, packets, drops) = (sum(0) / 10.0, sum(1) / 10.0, sum(2));
    let peak = rows.iter().map(|row| row[0]).fold(0.0, f64::max) * 8.0 / 1e6;
    let seconds = rows.len() as f64 / 10.0;
    writeln!(
        out,
        "  {} lines, {seconds:.1} s if each is a tenth: {packets:.0} packets, {bytes:.0} bytes, mean {:.3} Mbit/s, at most \
         {peak:.3} Mbit/s",
        rows.len(),
        bytes * 8.0 / seconds / 1e6
    )?;
    let share = if packets + drops > 0.0 { drops * 100.0 / (packets + drops) } else { 0.0 };
    writeln!(out, "  {drops:.0} drops in {:.0} runs ({share:.4} %)", sum(3))?;
    let min = rows.iter().map(|row| row[4]).fold(f64::INFINITY, f64::min);
    let max = rows.iter().map(|row| row[5]).fold(f64::NEG_INFINITY, f64::max);
    let weighted = rows.iter().map(|row| row[6] * row[1]).sum::<f64>() / sum(1).max(1.0);
    writeln!(out, "  latency: least {min:.0} us, mean {weighted:.1} us, largest {max:.0} us")?;
    if rows[0][1] == 10.0 && rows.len() > 1 && rows[1][1] > 20.0 {
        writeln!(
            out,
            "  the first line is that of a single packet, as the original's is: its lines' least and largest latencies begin \
             with the one before, the first with 0"
        )?;
    }
    Ok(())
}

fn histogram(rows: &[(f64, u64)], out: &mut dyn Write) -> io::Result<()> {
    let all: u64 = rows.iter().map(|(_, count)| count).fold(0, |sum, &n| sum.saturating_add(n));
    write!(out, "  histogram of {all} latencies:")?;
    for percent in [50, 90, 99] {
        let mut below = 0_u64;
        let at = rows.iter().find(|(_, count)| {
            below = below.saturating_add(*count);
            u128::from(below) * 100 >= u128::from(all) * percent
        });
        if let Some((edge, _)) = at.filter(|_| all > 0) {
            let last = rows.last().is_some_and(|(last, _)| last == edge);
            let more = if last { "above".to_owned() } else { format!("{} to", edge) };
            let to = if last { *edge } else { edge + 200.0 };
            write!(out, " p{percent} {more} {to} us;")?;
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the output of the original (arnoutdekimo/bwdelaytester, 2022-11): the beginning of `-p 1000 -b 10`, received over
    /// loopback, and two rows of the table of `-p 500 -b 60 -s`.
    const OUT: &str = "# bytes_last_intv packets_last_intv drops_last_intv drops_consq_last_intv mindelayus_last_intv maxdelayus_last_intv avgdelayus_last_intv \n\
        10000 10 0 0 0 243 243\n1250000 1250 0 0 6 1403 175\n1270000 1270 0 0 6 4002 102\n";
    const ERR: &str = "First packet seen from 127.0.0.1:60330\n## Printing latency histogram:\n0 2194 88\n200 16 88\n400 290 100\n\
        ## Printing sweep data:\n10 0.000000 0 321924 353 326\n20 0.238643 0 219105 474 328\n";

    fn told(text: &str) -> String {
        assert!(is_output(text.as_bytes()));
        let mut out = Vec::new();
        tell("f", text.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_add_up_to_what_came() {
        let told = told(OUT);
        // 1, 125 and 127 packets.
        assert!(told.contains("3 lines, 0.3 s if each is a tenth: 253 packets, 253000 bytes"), "{told}");
        assert!(told.contains("at most 10.160 Mbit/s") && told.contains("0 drops in 0 runs"), "{told}");
        assert!(told.contains("least 0 us") && told.contains("largest 4002 us"), "{told}");
        assert!(told.contains("that of a single packet"), "{told}");
    }

    #[test]
    fn histogram_and_table() {
        let told = told(ERR);
        assert!(told.contains("histogram of 2500 latencies: p50 0 to 200 us; p90 above 400 us;"), "{told}");
        assert!(told.contains("20 Mbit/s    0.239 %") && told.contains("begin there"), "{told}");
        assert!(!told.contains("none of bwdelaytester's"), "{told}");
    }

    #[test]
    fn other_files_are_not_taken_and_nonsense_is_counted() {
        for text in ["", "1 2 3 4 5 6 7\n", "{\"schema\": 1}", "size,wait_us\n"] {
            assert!(!is_output(text.as_bytes()), "{text}");
        }
        let text = format!("{OUT}1 2 x\n9 9 9 9 9 9 9 9\nnan 1 1 1 1 1 1\n");
        assert!(told(&text).contains("3 lines are none of bwdelaytester's"));
    }
}
