//! The order of crates, as the table in CONTRIBUTING.md has it: each depends only on crates above it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates in the order of the table: the names in its first column.
fn order(contributing: &str) -> Vec<String> {
    let rows = contributing.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let names = rows.map_while(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name.to_string());
    names.collect()
}

/// The crates of this workspace that a manifest names in a table of dependencies.
fn dependencies(manifest: &toml::Table, table: &str) -> BTreeSet<String> {
    let table = manifest.get(table).and_then(toml::Value::as_table);
    let names = table.into_iter().flatten().filter_map(|(name, _)| name.strip_prefix("paceline-"));
    names.map(String::from).collect()
}

/// What stands against an order: crates that are not in it, and dependencies on what comes later.
fn wrong(order: &[String], crates: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let place = |name: &String| order.iter().position(|known| known == name);
    let unknown = crates.keys().filter(|name| place(name).is_none()).map(|name| format!("{name} is not in the table"));
    let gone = order.iter().filter(|name| !crates.contains_key(*name)).map(|name| format!("there is no crate {name}"));
    let later = crates.iter().flat_map(|(name, uses)| {
        let later = uses.iter().filter(move |used| place(used) >= place(name));
        later.map(move |used| format!("{name} depends on {used}, which does not come before it"))
    });
    unknown.chain(gone).chain(later).collect()
}

#[test]
fn crates_depend_only_on_those_above_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let contributing = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let crates: BTreeMap<String, BTreeSet<String>> = fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let manifest: toml::Table = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap().parse().unwrap();
            (entry.file_name().into_string().unwrap(), dependencies(&manifest, "dependencies"))
        })
        .collect();
    assert!(crates["run"].contains("engine"), "the manifests are not read");
    assert_eq!(wrong(&order(&contributing), &crates), Vec::<String>::new());
}

#[test]
fn a_wrong_order_is_found() {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let crates = [("base", &[][..]), ("data", &["base"]), ("comm", &["base", "data"])];
    let crates: BTreeMap<_, BTreeSet<_>> =
        crates.iter().map(|(name, uses)| (name.to_string(), names(uses).into_iter().collect())).collect();
    assert!(wrong(&names(&["base", "data", "comm"]), &crates).is_empty());
    assert_eq!(
        wrong(&names(&["base", "comm", "data"]), &crates),
        ["comm depends on data, which does not come before it"]
    );
    assert_eq!(
        wrong(&names(&["base", "data", "plan"]), &crates)[..2],
        ["comm is not in the table", "there is no crate plan"].map(String::from)
    );
    let table = "words\n\n| crate | its room |\n|---|---|\n| `base` | shapes |\n| `data` | sets |\n\n| `no` | row |\n";
    assert_eq!(order(table), ["base", "data"]);
}
