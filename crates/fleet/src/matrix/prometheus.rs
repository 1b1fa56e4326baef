//! The matrix for Prometheus.

use super::Matrix;
use crate::verdict::{Side, Subject, figure};
use metrics::{real, seconds};
use model::Stat;
use report::MetricsSheet;
use std::io::{self, Write};

/// Writes the [gauges](metrics_sheet) of a matrix as a page.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_metrics(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    metrics_sheet(matrix).write(out)
}

/// The medians of each cell, ages, reasons and verdicts as gauges.
pub fn metrics_sheet(matrix: &Matrix) -> MetricsSheet {
    let mut sheet = MetricsSheet::default();
    for cell in &matrix.cells {
        let test = matrix.test_words(cell.test);
        let base = vec![("from", cell.from.clone()), ("to", cell.to.clone()), ("test", test)];
        for key in cell.readings.keys() {
            let (Some(figure), Some(value)) = (figure(key), cell.value(key)) else { continue };
            let mut labels = base.clone();
            if let Some(Stat::Quantile(q)) = figure.stat() {
                labels.push(("percentile", ((q * 1e5).round() / 1e3).to_string()));
            }
            let ((name, help), (suffix, divisor)) = (figure.gauge(), figure.unit().scraped());
            sheet.gauge(&format!("netcaliper_fleet_{name}{suffix}"), help, &labels, Some(value / divisor));
        }
        if let Some(measured) = cell.measured {
            let help = "When the latest outcome of the pair arrived, since the epoch.";
            sheet.gauge("netcaliper_fleet_measured_time_seconds", help, &base, Some(seconds(measured.0)));
        }
        for (reason, n) in &cell.missing {
            let labels = [base.clone(), vec![("reason", reason.to_string())]].concat();
            let help = "Tests without an outcome, by reason.";
            sheet.gauge("netcaliper_fleet_missing", help, &labels, Some(real(*n)));
        }
    }
    for verdict in &matrix.verdicts {
        let (kind, subject) = match &verdict.subject {
            Subject::All => ("all", String::new()),
            Subject::Host { host, side: Side::Out } => ("host_out", host.clone()),
            Subject::Host { host, side: Side::In } => ("host_in", host.clone()),
            Subject::Host { host, side: Side::Both } => ("host", host.clone()),
            Subject::Pair { from, to } => ("pair", format!("{from} {to}")),
            Subject::Label { label, value } => ("label", format!("{label} {value}")),
        };
        let labels =
            vec![("kind", kind.to_owned()), ("subject", subject), ("figure", verdict.figure.clone())];
        let help = "By how much the subject is worse than the rest: a share, percentage points of losses, or the percentage of tests that failed.";
        sheet.gauge("netcaliper_fleet_verdict", help, &labels, Some(verdict.effect));
    }
    sheet
}
