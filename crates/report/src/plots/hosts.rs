//! CPU of both ends.

use crate::plot::{Axis, Plot, Series, Style};
use metrics::real;
use model::{CpuUse, Point, Unit};

/// How busy the hosts were: percent of all their CPUs' time, and of the busiest one's.
pub(super) fn cpu(point: &Point) -> Option<Plot> {
    let remote = point.remote.iter().map(|totals| (format!("server {}", totals.who), totals.cpu));
    let ends: Vec<(String, CpuUse)> = std::iter::once(("this end".to_owned(), point.local.cpu))
        .chain(remote)
        .filter_map(|(name, cpu)| Some((name, cpu?)))
        .take(16)
        .collect();
    let share = |name: &str, of: fn(&CpuUse) -> Option<f64>| {
        let points = ends.iter().enumerate().map(|(at, (_, cpu))| (real(at), of(cpu).map(|s| s * 100.0)));
        Series::new(name, Style::Bars, points.collect())
    };
    let names = ends.iter().map(|(name, _)| name.clone()).collect();
    Plot::new(
        "cpu",
        "CPU",
        Axis::names("", names),
        Axis::new("share of the time", Unit::Percent).at_least(0.0, 100.0),
    )
    .note("Of the time of all CPUs together, but for the busiest one, which is one CPU's.")
    .with([
        share("this process", |cpu| ratio(cpu.process_s(), cpu)),
        share("whole machine", |cpu| cpu.machine()),
        share("softirq", |cpu| ratio(cpu.softirq_s, cpu)),
        share("stolen by the hypervisor", |cpu| cpu.stolen()),
        share("busiest CPU", |cpu| Some(cpu.busiest)),
    ])
    .some()
}

fn ratio(seconds: f64, cpu: &CpuUse) -> Option<f64> {
    (cpu.available_s > 0.0).then(|| seconds / cpu.available_s)
}
