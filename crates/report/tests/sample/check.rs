//! What must be true of every page.

/// What every page must hold to.
#[track_caller]
pub(crate) fn check(page: &str) {
    let lower = page.to_lowercase();
    for load in
        ["src=", "url(", "@import", "<link rel=\"stylesheet", "fetch(", "xmlhttprequest", "import(", "href=\"http"]
    {
        assert!(!lower.contains(load), "the page must not load anything, but has {load}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>"));
    for tag in
        ["div", "svg", "table", "tr", "td", "section", "details", "ul", "li", "p", "span", "figure", "script", "g"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}> is opened as often as it is closed");
    }
    for attribute in [" d=\"", " x=\"", " y=\"", "x1=\"", "y1=\"", "cx=\"", "cy=\"", "style=\""] {
        for value in page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{attribute}{value}");
        }
    }
}
