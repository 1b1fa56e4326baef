//! Prometheus' Pushgateway: the text format, under a grouping key.
//!
//! A PUT replaces all of a group, so that a figure which the latest run does not have is gone. The
//! group is that of the URL and of the test (verb, protocol, target): tests replace their own
//! figures only. <https://github.com/prometheus/pushgateway#api>

use crate::{Entry, Reading};
use base64ct::{Base64UrlUnpadded, Encoding as _};

/// The request for a reading; none for an empty sheet.
pub(crate) fn entry(path: &str, reading: &Reading) -> Option<Entry> {
    let mut target = path.to_owned();
    for (name, value) in reading.group.iter().filter(|(_, value)| !value.is_empty()) {
        // A value may have slashes, which base64 alone keeps out of the path.
        target.extend(["/", name, "@base64/", &Base64UrlUnpadded::encode_string(value.as_bytes())]);
    }
    let mut body = Vec::new();
    // Writing to memory cannot fail.
    let _ = reading.sheet.write(&mut body);
    let body = String::from_utf8(body).ok().filter(|body| !body.is_empty())?;
    Some(Entry { target, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::MetricsSheet;

    #[test]
    fn a_group_has_the_labels_of_the_test() {
        let mut sheet = MetricsSheet::default();
        sheet.gauge("netcaliper_run_complete", "Whether it ended as planned.", &Vec::new(), Some(1.0));
        let group =
            vec![("verb", "tcp".to_owned()), ("protocol", String::new()), ("target", "a/b".to_owned())];
        let entry =
            entry("/metrics/job/netcaliper", &Reading { sheet, group, ..Reading::default() }).unwrap();
        // `printf tcp | base64` is dGNw; `printf a/b | base64` is YS9i.
        assert_eq!(entry.target, "/metrics/job/netcaliper/verb@base64/dGNw/target@base64/YS9i");
        assert_eq!(
            entry.body,
            "# HELP netcaliper_run_complete Whether it ended as planned.\n# TYPE netcaliper_run_complete gauge\n\
             netcaliper_run_complete 1\n"
        );
        assert_eq!(super::entry("/", &Reading::default()), None);
    }
}
