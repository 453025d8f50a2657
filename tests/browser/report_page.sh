#!/usr/bin/env bash
# The report of a real demo in a real browser: curves and table are there, the console is silent, nothing is fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${PACELINE:?is the program to test; ./test browser sets it}"
fail() { echo "report_page: $*" >&2; exit 1; }

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
"$PACELINE" demo --dir "$work" >"$work/demo.txt" || { cat "$work/demo.txt"; fail "the demo failed"; }
page="$work/demo/report.html"
shots=${SCREENSHOTS:-$(mktemp -d)}

browse() { # browse ARGUMENT…: chromium on the page; standard error into console.txt
    timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --user-data-dir="$work/profile" --window-size=1280,2400 --virtual-time-budget=3000 \
        --enable-logging=stderr --v=0 "$@" "file://$page" 2>"$work/console.txt"
}

browse --log-net-log="$work/net.json" --dump-dom >"$work/dom.html" || { tail "$work/console.txt"; fail "chromium failed"; }
grep -q '</html>' "$work/dom.html" || fail "chromium gave no page"

curves=$(grep -o '<\(path\|polyline\)[^>]*' "$work/dom.html" | wc -l)
[ "$curves" -ge 10 ] || fail "only $curves curves: five runs have loss and accuracy each"
grep -q '<svg' "$work/dom.html" || fail "there is no SVG"
grep -q '<table' "$work/dom.html" || fail "there is no table"
sed -n '/<table/,/<\/table>/p' "$work/dom.html" >"$work/tables.html"
for run in softmax-single softmax-mirrored mlp-single mlp-mirrored mlp-hybrid; do
    grep -q "$run" "$work/tables.html" || fail "$run is not in the table"
done
! grep -q 'NaN\|undefined\|Infinity' <(sed 's/<script.*<\/script>//; s/<style.*<\/style>//' "$work/dom.html" |
    grep -o '\(d\|points\|x\|y\|transform\)="[^"]*"') || fail "a curve has coordinates that are no numbers"
# `CONSOLE` lines are the page's own; the rest is chromium talking about the machine.
! grep 'CONSOLE' "$work/console.txt" || fail "the console is not silent"
# Requests of the page itself: chromium's own background services are not started for file:// pages in headless mode,
# but are let through by name where they are.
python3 - "$work/net.json" <<'END' || fail "the page asked the network for something"
import json, sys
log = json.load(open(sys.argv[1]))
types = {v: k for k, v in log["constants"]["logEventTypes"].items()}
urls = {e["params"]["url"] for e in log["events"]
        if types[e["type"]] == "URL_REQUEST_START_JOB" and "url" in e.get("params", {})}
own = ("file:", "data:", "blob:", "chrome", "devtools:")
background = ("google.com", "googleapis.com", "gvt1.com", "gstatic.com")
foreign = {u for u in urls if not u.startswith(own) and not any(b in u.split("/")[2] for b in background)}
print(f"{len(urls)} requests, {len(foreign)} to the network")
sys.exit(f"asked for {sorted(foreign)}" if foreign else 0)
END
! grep -Eio '(src|href)="(https?:)?//[^"]*"|url\((https?:)?//[^)]*\)|@import' "$page" || fail "the page names other hosts"

# At any width the page itself does not scroll sideways, and the comparison is there whole. Chromium's window has at least 500 pixels:
# a frame stands for narrower ones.
sed 's|</body>|<script>addEventListener("load",()=>parent.postMessage([innerWidth,document.documentElement.scrollWidth,[...document.querySelectorAll(".compared")].filter(e=>e.scrollWidth>e.clientWidth+1).length].join(" "),"*"))</script></body>|' \
    "$page" >"$work/measured.html"
for width in 360 768 1280; do
    cat >"$work/frame.html" <<END
<!doctype html><html><body style="margin:0"><iframe src="measured.html" width="$width" height="2000" style="border:0"></iframe>
<script>addEventListener("message",e=>{document.documentElement.dataset.measured=e.data})</script></body></html>
END
    page="$work/frame.html" browse --dump-dom >"$work/frame-dom.html" || fail "chromium failed at $width pixels"
    read -r inner scroll cut < <(grep -o 'data-measured="[^"]*"' "$work/frame-dom.html" | tr -dc '0-9 \n') ||
        fail "the page at $width pixels was not measured"
    [ "$inner" = "$width" ] || fail "the frame has $inner pixels instead of $width"
    [ "$scroll" -le "$inner" ] || fail "at $width pixels the page is $scroll wide"
    [ "$cut" = 0 ] || fail "at $width pixels $cut comparison tables are cut off"
done

browse --screenshot="$shots/report.png" >/dev/null || fail "no screenshot"
[ "$(stat -c %s "$shots/report.png")" -gt 20000 ] || fail "the screenshot is empty"
echo "report_page: $curves curves, table, silent console; screenshot $shots/report.png"
