//! Shows the results of a run: console, CSV, JSON, HTML with plots.
//!
//! Reporters are fed by events and outcomes and write to the given output; they open no files, read
//! no clock and know nothing of sockets. A live report and one from a file are the same code:
//! [`read_run`] makes an outcome of a saved file, [`replay()`] makes events of an outcome.
#![forbid(unsafe_code)]

mod compare;
mod console;
mod csv;

mod histogram;
mod history;
mod html;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod plot;
mod plots;
mod prometheus;
mod rows;
mod summary;
mod text;

pub mod words;

pub use compare::Comparison;
pub use console::{Console, Detail, Style};
pub use csv::{EventCsv, EventWriter, Rows, write_sweep_csv};
pub use histogram::{round_trips, write_hgrm, write_histogram_csv};
pub use history::{write_figures_csv, write_history, write_history_json};
pub use html::history::{HistoryQuery, write_history_page, write_trend};
pub use html::live::{LivePage, LivePlot, LiveView, live_units, page_policy};
pub use html::{SCRIPT as REPORT_SCRIPT, STYLE as REPORT_STYLE, escape, svg_files, url_encoded, write_html};
pub use json::{Journal, read_run, replay, write_outcome, write_outcome_line, write_summary};
#[cfg(feature = "parquet")]
pub use parquet::write_figures_parquet;
pub use plot::round_up;
pub use prometheus::{
    Gauge, Labels as MetricsLabels, METRICS_TYPE, RunMetrics, ServerMetrics, Sheet as MetricsSheet,
    labels_of_run, run_gauges,
};
pub use text::{Page, Table, Tone, aligned, ascii, broken, clean, hanging, or_dash};
