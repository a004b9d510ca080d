//! The modules of a crate as its source says them: what each declares, imports, and names by a path.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module, in a file of its own or inside another module's.
#[derive(Default)]
pub(super) struct Module {
    /// The file that the module's text is in.
    pub(super) file: PathBuf,
    /// The module around it; the crate's root has none.
    pub(super) parent: Option<usize>,
    /// Modules that it declares, by name.
    pub(super) children: BTreeMap<String, usize>,
    /// Functions, types, constants and macros that it defines.
    pub(super) items: BTreeSet<String>,
    /// What its `use` lines name, those in bodies of functions too.
    pub(super) imports: Vec<Import>,
    /// Other paths of two and more segments in its text.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Every identifier in its text outside of `use`.
    pub(super) words: BTreeSet<String>,
}

/// One name, or one `*`, of a `use` line.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name here; `*` for all names of the path.
    pub(super) name: String,
    /// Others may take the name from here: a re-export, which by itself uses nothing.
    pub(super) public: bool,
}

/// All modules below a root file; the first is the root. Those for tests are left out.
pub(super) fn modules(root: &Path) -> Vec<Module> {
    let mut reader = Reader { modules: Vec::new() };
    reader.file(root, None, true);
    reader.modules
}

/// The modules of one text, without those in other files.
pub(super) fn text(file: &str, text: &str) -> Vec<Module> {
    let mut reader = Reader { modules: vec![Module { file: file.into(), ..Module::default() }] };
    reader.module(0, text.parse().unwrap(), None);
    reader.modules
}

struct Reader {
    modules: Vec<Module>,
}

/// Where the files of a module's children are.
type Folder<'a> = Option<&'a Path>;

impl Reader {
    fn file(&mut self, file: &Path, parent: Option<usize>, root: bool) -> usize {
        let text = fs::read_to_string(file).unwrap();
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let at = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let is_face = root || file.ends_with("mod.rs");
        let folder = if is_face { file.parent().unwrap().to_owned() } else { file.with_extension("") };
        self.module(at, tokens, Some(&folder));
        at
    }

    fn module(&mut self, at: usize, tokens: TokenStream, folder: Folder<'_>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        self.tokens(at, &tokens, folder, true);
    }

    /// `top`: the tokens are a module's own, not those of a body or an argument.
    fn tokens(&mut self, at: usize, tokens: &[TokenTree], folder: Folder<'_>, top: bool) {
        let mut next = 0;
        while next < tokens.len() {
            let rest = &tokens[next..];
            let before = &tokens[..next];
            next += match &rest[0] {
                TokenTree::Punct(mark) if mark.as_char() == '#' && is_for_tests(rest) => 2 + item(&rest[2..]),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.tokens(at, &inner, folder, false);
                    1
                }
                TokenTree::Ident(word) if word == "use" && !is_mark(rest.get(1), '<') => {
                    let end = until(rest, |token| is_mark(Some(token), ';'));
                    self.imports(at, &rest[1..end], is_public(before));
                    end
                }
                TokenTree::Ident(word) if word == "mod" && top => self.child(at, rest, folder),
                TokenTree::Ident(word) if word == "mod" => self.nameless(at, rest, folder),
                TokenTree::Ident(word) => {
                    let module = &mut self.modules[at];
                    module.words.insert(word.to_string());
                    if top {
                        module.items.extend(defined(rest));
                    }
                    let path = path(before, rest);
                    let length = path.len();
                    module.words.extend(path.first().cloned());
                    if length > 1 {
                        module.paths.insert(path);
                    }
                    (3 * length).saturating_sub(2).max(1)
                }
                _ => 1,
            };
        }
    }

    /// `mod name;` or `mod name { ... }`; answers how many tokens that is.
    fn child(&mut self, at: usize, rest: &[TokenTree], folder: Folder<'_>) -> usize {
        let Some(TokenTree::Ident(name)) = rest.get(1) else { return 1 };
        let name = name.to_string();
        let for_tests = name == "tests" || name.ends_with("_tests");
        let inside = folder.map(|folder| folder.join(&name));
        match (rest.get(2), inside) {
            _ if for_tests => {}
            (Some(TokenTree::Group(group)), inside) => {
                let child = self.modules.len();
                let file = self.modules[at].file.clone();
                self.modules.push(Module { file, parent: Some(at), ..Module::default() });
                self.modules[at].children.insert(name, child);
                self.module(child, group.stream(), inside.as_deref());
            }
            (_, Some(inside)) => {
                let files = [inside.with_extension("rs"), inside.join("mod.rs")];
                // Generated modules and those of other systems have no file here.
                if let Some(file) = files.iter().find(|file| file.exists()) {
                    let child = self.file(file, Some(at), false);
                    self.modules[at].children.insert(name, child);
                }
            }
            (_, None) => {}
        }
        3
    }

    /// A module that a macro makes: what is `super` in it is this module.
    fn nameless(&mut self, at: usize, rest: &[TokenTree], folder: Folder<'_>) -> usize {
        let end = until(rest, |token| matches!(token, TokenTree::Group(_)) || is_mark(Some(token), ';'));
        if let Some(TokenTree::Group(group)) = rest.get(end) {
            let file = self.modules[at].file.clone();
            self.modules.push(Module { file, parent: Some(at), ..Module::default() });
            self.module(self.modules.len() - 1, group.stream(), folder);
        }
        (end + 1).min(rest.len())
    }

    fn imports(&mut self, at: usize, tree: &[TokenTree], public: bool) {
        for (path, name) in leaves(tree, &[]) {
            self.modules[at].imports.push(Import { path, name, public });
        }
    }
}

/// `#[cfg(test)]`, or more that must hold beside it.
fn is_for_tests(rest: &[TokenTree]) -> bool {
    let Some(TokenTree::Group(attribute)) = rest.get(1) else { return false };
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// How many tokens the item, statement or field is that begins here.
fn item(tokens: &[TokenTree]) -> usize {
    let flat = ["use", "let", "const", "static", "type", "extern"];
    let deep = ["fn", "mod", "impl", "struct", "enum", "trait", "union", "async", "unsafe", "macro_rules"];
    let keyword = tokens.iter().find_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string())
            .filter(|word| flat.contains(&word.as_str()) || deep.contains(&word.as_str())),
        _ => None,
    });
    let is_block =
        |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    let is_end = |token: &TokenTree| is_mark(Some(token), ';');
    let first_end = until(tokens, |token| is_end(token) || is_block(token) || is_mark(Some(token), ','));
    let end = match keyword.as_deref() {
        Some(word) if flat.contains(&word) => until(tokens, is_end),
        Some(_) => until(tokens, |token| is_end(token) || is_block(token)),
        None => first_end,
    };
    (end + 1).min(tokens.len())
}

fn until(tokens: &[TokenTree], ends: impl Fn(&TokenTree) -> bool) -> usize {
    tokens.iter().position(ends).unwrap_or(tokens.len())
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn is_public(before: &[TokenTree]) -> bool {
    let is_pub = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Ident(word)) if word == "pub");
    match before {
        [.., first, TokenTree::Group(_)] => is_pub(Some(first)),
        _ => is_pub(before.last()),
    }
}

/// The name that an item's keyword, standing here, defines.
fn defined(rest: &[TokenTree]) -> Option<String> {
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
    match rest {
        [TokenTree::Ident(word), TokenTree::Ident(name), ..] if keywords.iter().any(|k| word == k) => {
            Some(name.to_string())
        }
        [TokenTree::Ident(word), _, TokenTree::Ident(name), ..] if word == "macro_rules" => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// The path that begins here; nothing in the midst of one, or behind a dot.
fn path(before: &[TokenTree], rest: &[TokenTree]) -> Vec<String> {
    let dots = before.iter().rev().take_while(|token| is_mark(Some(token), '.')).count();
    if dots == 1 || is_mark(before.last(), ':') && is_mark(before.iter().rev().nth(1), ':') {
        return Vec::new();
    }
    let mut path = Vec::new();
    let mut rest = rest;
    while let [TokenTree::Ident(word), after @ ..] = rest {
        path.push(word.to_string());
        match after {
            [first, second, after @ ..] if is_mark(Some(first), ':') && is_mark(Some(second), ':') => {
                rest = after
            }
            _ => break,
        }
    }
    path
}

/// Every name of a `use` tree with its whole path.
fn leaves(tree: &[TokenTree], above: &[String]) -> Vec<(Vec<String>, String)> {
    let mut path = above.to_vec();
    let mut rest = tree;
    loop {
        match rest {
            [TokenTree::Ident(word), after @ ..] => {
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
                rest = after;
                if let [TokenTree::Ident(_), alias, ..] = after {
                    return vec![(path, alias.to_string())];
                }
            }
            [TokenTree::Group(group), ..] => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let parts = inner.split(|token| is_mark(Some(token), ','));
                return parts.filter(|part| !part.is_empty()).flat_map(|part| leaves(part, &path)).collect();
            }
            [star, ..] if is_mark(Some(star), '*') => return vec![(path, "*".to_owned())],
            [_, after @ ..] => rest = after,
            [] => {
                let name = path.last().cloned().unwrap_or_default();
                return vec![(path, name)];
            }
        }
    }
}
