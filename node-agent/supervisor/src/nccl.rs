//! NCCL's plugins where the tenant asks for them: `RAIL_NCCL` in the job's environment names which. [pure]

use std::collections::BTreeMap;

/// The variable by which a job asks.
const ASKED: &str = "RAIL_NCCL";
/// Where this server has the library, in a rank's environment.
const PLUGIN: &str = "RAIL_NCCL_PLUGIN";
/// Everything that can be asked for, and NCCL's variable for it.
const KINDS: [(&str, &str); 3] =
    [("net", "NCCL_NET_PLUGIN"), ("tuner", "NCCL_TUNER_PLUGIN"), ("profiler", "NCCL_PROFILER_PLUGIN")];

/// Adds NCCL's variables to a rank's environment, as that asks for them. What is there already stays: the user's own values win.
///
/// # Errors
/// It asks for something that there is not, or this server has no library.
pub fn add_plugins(environment: &mut BTreeMap<String, String>) -> Result<(), String> {
    let Some(asked) = environment.get(ASKED) else { return Ok(()) };
    let kinds = kinds(asked)?;
    let Some(plugin) = environment.get(PLUGIN).cloned() else {
        return Err(format!(
            "{ASKED}={asked}: this server has no librail_nccl_net.so beside librail.so (install it there, or remove {ASKED} from the job)"
        ));
    };
    if kinds.contains(&"NCCL_NET_PLUGIN") {
        // No other network if this one cannot be used: it would be slower, and silently so.
        environment.entry("NCCL_NET".to_owned()).or_insert_with(|| "Rail".to_owned());
    }
    for kind in kinds {
        environment.entry(kind.to_owned()).or_insert_with(|| plugin.clone());
    }
    Ok(())
}

/// NCCL's variables for what was asked.
fn kinds(asked: &str) -> Result<Vec<&'static str>, String> {
    let mut kinds = Vec::new();
    for word in asked.split(',').map(str::trim) {
        match KINDS.iter().find(|(known, _)| *known == word) {
            Some((_, variable)) => kinds.push(*variable),
            None if word == "all" => kinds.extend(KINDS.map(|(_, variable)| variable)),
            None => {
                return Err(format!(
                    "{ASKED}={asked}: there is no {word:?}; known are net, tuner and profiler, separated by commas, and all"
                ));
            }
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
        let mut environment =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        add_plugins(&mut environment).map(|()| environment)
    }

    #[test]
    fn a_job_gets_the_plugins_that_it_asks_for_and_no_other() {
        let plugin = (PLUGIN, "/lib/librail_nccl_net.so");
        let none = with(&[plugin]).unwrap();
        assert_eq!(none.len(), 1);
        let net = with(&[plugin, (ASKED, "net")]).unwrap();
        assert_eq!((net["NCCL_NET_PLUGIN"].as_str(), net["NCCL_NET"].as_str()), (plugin.1, "Rail"));
        assert!(!net.contains_key("NCCL_TUNER_PLUGIN") && !net.contains_key("NCCL_PROFILER_PLUGIN"));
        let profiler = with(&[plugin, (ASKED, "profiler")]).unwrap();
        assert_eq!(profiler["NCCL_PROFILER_PLUGIN"], plugin.1);
        assert!(!profiler.contains_key("NCCL_NET") && !profiler.contains_key("NCCL_NET_PLUGIN"));
        for asked in ["all", "net,tuner,profiler", "tuner, net ,profiler"] {
            let all = with(&[plugin, (ASKED, asked)]).unwrap();
            assert!(KINDS.iter().all(|(_, variable)| all[*variable] == plugin.1), "{asked}");
        }
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let set =
            [(PLUGIN, "/lib/a.so"), (ASKED, "all"), ("NCCL_NET_PLUGIN", "/mine.so"), ("NCCL_NET", "IB")];
        let all = with(&set).unwrap();
        assert_eq!((all["NCCL_NET_PLUGIN"].as_str(), all["NCCL_NET"].as_str()), ("/mine.so", "IB"));
        assert_eq!(all["NCCL_TUNER_PLUGIN"], "/lib/a.so");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for asked in ["", "rail", "net,,tuner", "NET"] {
            let error = with(&[(PLUGIN, "/lib/a.so"), (ASKED, asked)]).unwrap_err();
            assert!(error.starts_with(&format!("RAIL_NCCL={asked}: there is no ")), "{error}");
        }
        let error = with(&[(ASKED, "net")]).unwrap_err();
        assert!(error.contains("has no librail_nccl_net.so"), "{error}");
    }
}
