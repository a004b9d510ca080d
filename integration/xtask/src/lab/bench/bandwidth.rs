//! E1: an all-reduce over four shaped rails, as a share of what `ib_write_bw` reaches on the four at once.

use serde_json::{Value, json};

use super::line::{Goal, Line, is_bound, numbers, quantile, round};

/// Share of the shaped rate that `ib_write_bw` must reach, or the rails are not what limits it.
const SHAPED: f64 = 0.9;

/// The median of the turns, with what it is a share of.
pub(super) fn lines(results: &[Value]) -> Vec<Line> {
    let middle = |name| quantile(&numbers(results, name), 0.5);
    let (sum, shaped, busy) = (middle("ib_write_bw"), middle("shaped"), middle("busy"));
    let too_slow = sum.zip(shaped).filter(|(sum, shaped)| *sum < SHAPED * shaped);
    let too_slow = too_slow.map(|(sum, shaped)| {
        format!("ib_write_bw reached only {sum:.1} of {shaped:.1} Mbit/s: the rails were not the limit")
    });
    vec![Line {
        case: "all-reduce 16 MiB n=2 over verbs, 4 shaped rails, of the sum of ib_write_bw".into(),
        value: middle("share"),
        unit: "%",
        goal: Goal::AtLeast(90.0),
        sample: numbers(results, "share"),
        busy,
        void: too_slow.or_else(|| is_bound(busy)),
        peers: json!({
            "unit": "Mbit/s", "ours": middle("ours").map(round), "ib_write_bw": sum.map(round),
            "shaped": shaped.map(round),
        }),
    }]
}

#[cfg(test)]
mod tests {
    use super::{super::said, *};

    #[test]
    fn void_says_which_figure_says_so() {
        let turn = |share: f64, sum: f64, busy: f64| {
            format!(
                "result {{\"share\":{share},\"ours\":1,\"ib_write_bw\":{sum},\"shaped\":160,\"busy\":{busy}}}"
            )
        };
        let line = |turns: &[String]| {
            let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
            lines(&said(&turns))[0].json("E1")
        };
        let noise = ["up 3 s".to_owned(), "result {".to_owned()];
        let good =
            line(&[turn(93.1, 158.0, 1.2), noise[0].clone(), turn(95.0, 158.0, 1.2), noise[1].clone()]);
        assert_eq!((&good["holds"], &good["runs"], &good["value"]), (&json!(true), &json!(2), &json!(93.1)));
        assert_eq!(line(&[turn(50.0, 158.0, 1.2)])["holds"], json!(false));
        let busy = line(&[turn(50.0, 158.0, 1.99)]);
        assert_eq!(busy["holds"], json!("void"));
        assert_eq!(busy["peers"]["void"], json!("1.99 of the guest's 2 processors were busy"));
        let slow = line(&[turn(50.0, 80.0, 1.2)]);
        assert!(slow["peers"]["void"].to_string().contains("only 80.0 of 160.0 Mbit/s"), "{slow}");
        assert_eq!(line(&[])["holds"], json!(false), "nothing was measured");
    }
}
