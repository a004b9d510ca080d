//! A length of time in words.

/// A time as people say it.
#[must_use]
pub fn span(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "never".to_owned(),
        s if s < 0.05 => "0".to_owned(),
        s if s < 60.0 => format!("{s:.1}s"),
        s if s < 3600.0 => format!("{:.1}m", s / 60.0),
        s if s < 172_800.0 => format!("{:.1}h", s / 3600.0),
        s => format!("{:.1}d", s / 86_400.0),
    }
}
