//! A validation as one page that needs nothing else: no script, no font, no picture from elsewhere.

use std::fmt::Write as _;

use super::{
    judge::bytes,
    measure::Port,
    report::{Report, figures, sentence},
};
use crate::render::escape;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Railyard: validation of the fabric</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; margin: .5rem 0 } th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #dde3ea }
td.n { text-align: right; font-variant-numeric: tabular-nums } .good { color: #12693a } .bad { color: #a61b1b; font-weight: 600 }
td.heat { text-align: right; font-variant-numeric: tabular-nums; border: 1px solid #fff; min-width: 4.5rem }
.note { color: #66707c }
</style></head><body>
"#;

/// The page as HTML.
pub fn page(report: &Report) -> String {
    let mut out = String::from(HEAD);
    let short = report.verdict.short();
    let class = if short == 0 { "good" } else { "bad" };
    let _ = writeln!(
        out,
        "<h1>Validation of the fabric</h1>\n<p class=\"{class}\">{}</p>",
        escape(&sentence(report))
    );
    let baseline = match &report.baseline {
        Some(time) => format!("compared with the baseline of {}", escape(time)),
        None => "compared with no baseline".to_owned(),
    };
    let limits = report.limits;
    let _ = writeln!(
        out,
        "<p class=\"note\">{}; {baseline}. Borne: {} % below the baseline, {} % below the median of its like.</p>",
        escape(&report.time),
        limits.below_baseline,
        limits.below_median
    );
    findings(&mut out, report);
    heat(&mut out, report);
    runs(&mut out, report);
    out.push_str("</body></html>\n");
    out
}

fn findings(out: &mut String, report: &Report) {
    if report.verdict.findings.is_empty() {
        return;
    }
    out.push_str(
        "<h2>What falls short</h2>\n<table><tr><th></th><th>What</th><th>Where</th><th>How much</th></tr>\n",
    );
    for one in &report.verdict.findings {
        let class = if one.note { "note" } else { "bad" };
        let (code, what) = (escape(one.code), escape(&one.what));
        let (place, message) = (escape(&one.place), escape(&one.message));
        let _ = writeln!(
            out,
            "<tr><td class=\"{class}\">{code}</td><td>{what}</td><td>{place}</td><td>{message}</td></tr>"
        );
    }
    out.push_str("</table>\n");
}

/// A row for each server, a cell for each rail: the best rate with any partner, coloured by what it is of the median.
fn heat(out: &mut String, report: &Report) {
    let verdict = &report.verdict;
    if verdict.ports.is_empty() {
        return;
    }
    out.push_str("<h2>Rails of each server, Gbit/s</h2>\n<p class=\"note\">The best rate with any partner; ");
    let _ =
        writeln!(out, "median of all pairs and rails {:.2}.</p>\n<table><tr><th>Server</th>", verdict.median);
    for rail in &report.rails {
        let _ = write!(out, "<th>rail {rail}</th>");
    }
    out.push_str("</tr>\n");
    for node in &report.nodes {
        let _ = write!(out, "<tr><td>{}</td>", escape(node));
        for rail in &report.rails {
            match verdict.ports.get(&Port { node: node.clone(), rail: *rail }) {
                None => out.push_str("<td class=\"heat\">&ndash;</td>"),
                Some(rate) => {
                    let colour = colour(*rate, verdict.median);
                    let _ = write!(out, "<td class=\"heat\" style=\"background:{colour}\">{rate:.2}</td>");
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// From red (half of the median or less) over yellow to green (the median or more).
fn colour(rate: f64, median: f64) -> String {
    let part = if median > 0.0 { ((rate / median - 0.5) * 2.0).clamp(0.0, 1.0) } else { 0.0 };
    format!("hsl({:.0} 70% 80%)", part * 125.0)
}

fn runs(out: &mut String, report: &Report) {
    out.push_str("<h2>All tests</h2>\n<table><tr><th>Phase</th><th>Test</th><th>Where</th><th>Bytes</th>");
    out.push_str("<th>Gbit/s</th><th>Median, us</th><th>Longest, us</th></tr>\n");
    for run in &report.runs {
        let [gbps, median, max] = figures(run);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{gbps}</td><td class=\"n\">{median}</td><td class=\"n\">{max}</td></tr>",
            run.phase.as_str(),
            escape(&run.test),
            escape(&run.place()),
            bytes(run.bytes)
        );
    }
    out.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::report::tests::report;

    #[test]
    fn a_page_needs_nothing_else_and_shows_text_as_text() {
        let page = page(&report());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
        for outside in ["http", "src=", "href=", "<script", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(
            page.contains("n0-&lt;n2&gt;")
                && page.contains("&amp; nobody knows why")
                && !page.contains("<n2>")
        );
        assert_eq!(page.matches("<td class=\"heat\"").count(), 3 * 2, "servers times rails");
        assert_eq!(page.matches("&ndash;").count(), 2, "of the server that was not measured");
        for tag in ["table", "tr", "td", "th", "h2", "p"] {
            let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn colours_go_from_red_to_green() {
        let all = [0.0, 50.0, 75.0, 100.0, 200.0].map(|rate| colour(rate, 100.0));
        assert_eq!(all[0], all[1]);
        assert_eq!(all[1..4], ["hsl(0 70% 80%)", "hsl(62 70% 80%)", "hsl(125 70% 80%)"]);
        assert_eq!((&all[3], colour(1.0, 0.0).as_str()), (&all[4], "hsl(0 70% 80%)"));
    }
}
