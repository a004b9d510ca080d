//! SONiC's YANG models from the folder `src/sonic-yang-models` of its sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use yang3::{
    context::{Context, ContextFlags},
    schema::{SchemaNode, SchemaNodeKind},
};

/// Loads every model of a folder that has `yang-models` and `yang-templates`.
///
/// # Errors
/// The folder has no models, a template has more than its one condition, or libyang refuses a model; with the file.
pub fn load(folder: &Path) -> Result<Context, String> {
    let models = folder.join("yang-models");
    let rendered = tempfile::tempdir().map_err(|error| format!("no folder for rendered models: {error}"))?;
    let mut names: BTreeSet<String> = files(&models, ".yang")?.into_keys().collect();
    for (name, text) in files(&folder.join("yang-templates"), ".yang.j2")? {
        let text = render(&text).map_err(|why| format!("yang-templates/{name}.yang.j2: {why}"))?;
        let file = rendered.path().join(format!("{name}.yang"));
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        names.insert(name);
    }
    let mut context = Context::new(ContextFlags::NO_YANGLIBRARY).map_err(|error| error.to_string())?;
    for folder in [&*models, rendered.path()] {
        context.set_searchdir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    for name in &names {
        context.load_module(name, None, &[]).map_err(|error| format!("model {name}: {error}"))?;
    }
    Ok(context)
}

/// Files of a folder by their names without this ending.
fn files(folder: &Path, ending: &str) -> Result<BTreeMap<String, String>, String> {
    let at = |error| format!("{}: {error}", folder.display());
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        if let Some(name) = entry.file_name().to_string_lossy().strip_suffix(ending) {
            all.insert(name.to_owned(), fs::read_to_string(entry.path()).map_err(at)?);
        }
    }
    if all.is_empty() { Err(format!("{} has no {ending} file", folder.display())) } else { Ok(all) }
}

/// A template as SONiC's own tools take it: what stands after `else` of its conditions on `yang_model_type`.
fn render(template: &str) -> Result<String, String> {
    const CONDITION: &str = "{% if yang_model_type == \"cvl\" %}";
    let (mut text, mut kept) = (String::with_capacity(template.len()), true);
    for (at, line) in (1..).zip(template.lines()) {
        match line.trim() {
            CONDITION if kept => kept = false,
            "{% else %}" if !kept => kept = true,
            "{% endif %}" if kept => {}
            other if other.contains("{%") || other.contains("{{") => {
                return Err(format!("line {at} is beyond what is rendered here: {other}"));
            }
            _ if kept => text.extend([line, "\n"]),
            _ => {}
        }
    }
    Ok(text)
}

/// Every table of the models, by its name.
#[must_use]
pub fn tables(context: &Context) -> BTreeMap<String, SchemaNode<'_>> {
    let tops = context.modules(true).flat_map(|module| module.data().collect::<Vec<_>>());
    let tables = tops.filter(|top| top.kind() == SchemaNodeKind::Container).flat_map(|top| top.children());
    tables.map(|table| (table.name().to_owned(), table)).collect()
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn of_a_template_what_is_for_python_is_kept() {
        let text = "a\n  {% if yang_model_type == \"cvl\" %}\nb\n  {% else %}\nc\n{% endif %}\nd\n";
        assert_eq!(render(text).unwrap(), "a\nc\nd\n");
        let why = render("a\n{% for x in y %}\n").unwrap_err();
        assert!(why.starts_with("line 2"), "{why}");
    }
}
