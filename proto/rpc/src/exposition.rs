//! Metrics as text, in the two formats that scrapers read: which of them one asked for, and the older made of the newer.

use crate::negotiate::offers;
use axum::http::{HeaderMap, header};
use std::fmt::Write as _;

/// How `/metrics` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format 0.0.4: what everything that scrapes reads.
    Text,
    /// OpenMetrics 1.0: to whoever asks for it.
    OpenMetrics,
}

impl Exposition {
    /// The value of `content-type` for such an answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a scraper would rather have. OpenMetrics only where it is named, and weighs no less than plain text.
    #[must_use]
    pub fn asked(headers: &HeaderMap) -> Self {
        let (mut text, mut open) = (0, 0);
        for offer in offers(headers, &header::ACCEPT) {
            let version = offer.parameter("version");
            match offer.name.as_str() {
                "application/openmetrics-text" if version.is_none_or(|version| version == "1.0.0") => {
                    open = offer.weight.max(open);
                }
                "text/plain" if version.is_none_or(|version| version == "0.0.4") => {
                    text = offer.weight.max(text);
                }
                "text/*" | "*/*" => text = offer.weight.max(text),
                _ => {}
            }
        }
        if open > 0 && open >= text { Exposition::OpenMetrics } else { Exposition::Text }
    }
}

/// OpenMetrics text, as prometheus-client writes it, in the text format 0.0.4: what describes a counter or an information carries
/// the name of its samples, an information is a gauge, and there is neither unit nor end.
#[must_use]
pub fn to_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // The help of a metric comes before its type, which says under which name it goes.
    let mut help = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                // Writing to a String does not fail.
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') && !line.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_scraper_gets_what_it_asks_for() {
        use Exposition::{OpenMetrics, Text};
        // The first is what Prometheus 2.42 sends, the second Prometheus 3.
        for (accept, expected) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                OpenMetrics,
            ),
            ("*/*", Text),
            ("text/plain", Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Text),
            ("application/json", Text),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Text),
            ("application/openmetrics-text;q=0", Text),
            ("application/openmetrics-text;q=0.4, text/plain;q=0.5", Text),
            ("application/openmetrics-text;q=0.4, */*;q=0.5", Text),
            ("text/plain;q=0.5, application/openmetrics-text;q=0.5", OpenMetrics),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Exposition::asked(&headers), expected, "{accept}");
        }
        assert_eq!(Exposition::asked(&HeaderMap::new()), Text);
    }

    #[test]
    fn the_older_format_has_the_older_names() {
        let open = "# HELP rail_build What is running.\n# TYPE rail_build info\n\
                    rail_build_info{version=\"# TYPE x info\"} 1\n\
                    # HELP rail_things Things.\n# TYPE rail_things counter\n# UNIT rail_things things\n\
                    rail_things_total 2\n# TYPE rail_odd unknown\nrail_odd 3\n\
                    # HELP rail_s Time.\n# TYPE rail_s histogram\nrail_s_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let text = "# HELP rail_build_info What is running.\n# TYPE rail_build_info gauge\n\
                    rail_build_info{version=\"# TYPE x info\"} 1\n\
                    # HELP rail_things_total Things.\n# TYPE rail_things_total counter\n\
                    rail_things_total 2\n# TYPE rail_odd untyped\nrail_odd 3\n\
                    # HELP rail_s Time.\n# TYPE rail_s histogram\nrail_s_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(to_text(open), text);
    }
}
