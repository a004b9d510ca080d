//! E7: what it costs to find a registration that is kept, beyond a hash look-up.

use serde_json::{Value, json};

use super::line::{Goal, Line, numbers, quantile, round};

/// The median of the turns' differences.
pub(super) fn lines(results: &[Value]) -> Vec<Line> {
    let number = |result: &Value, name: &str| result[name].as_f64();
    let more = |result| Some(number(result, "hit_ns")? - number(result, "hash_ns")?);
    let mut sample: Vec<f64> = results.iter().filter_map(more).collect();
    sample.sort_by(f64::total_cmp);
    let middle = |name| quantile(&numbers(results, name), 0.5).map(round);
    vec![Line {
        case: "registration cache: a hit, beyond a hash look-up".into(),
        value: quantile(&sample, 0.5),
        unit: "ns",
        goal: Goal::AtMost(100.0),
        sample,
        busy: None,
        void: None,
        peers: json!({"unit": "ns", "hit": middle("hit_ns"), "hash look-up": middle("hash_ns"), "registered": middle("registered")}),
    }]
}

#[cfg(test)]
mod tests {
    use super::{super::said, *};

    #[test]
    fn the_difference_of_each_turn_counts() {
        let said = said(&[
            "result {\"hit_ns\":90,\"hash_ns\":30,\"registered\":4}",
            "result {\"hit_ns\":170,\"hash_ns\":30,\"registered\":4}",
            "result {\"hit_ns\":80,\"hash_ns\":30,\"registered\":4}",
        ]);
        let line = lines(&said)[0].json("E7");
        assert_eq!(
            (&line["value"], &line["holds"], &line["max"]),
            (&json!(60.0), &json!(true), &json!(140.0))
        );
        assert_eq!(lines(&[])[0].json("E7")["holds"], json!(false), "nothing was measured");
    }
}
