"""Report as JUnit XML, with a suite for each runtime; known deviations count as skipped."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from conformance.report.run import Run
from conformance.runner.outcome import ERROR, SKIP, Outcome

# Characters that XML 1.0 cannot contain, not even as a reference.
UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def dump(run: Run) -> str:
    """Return the report's text."""
    root = ET.Element("testsuites", name="oci-conformance")
    for runtime in run.runtimes:
        suite = ET.SubElement(root, "testsuite", name=runtime.label)
        for one in run.of(runtime.label):
            _add(suite, run, one)
        suite.set("tests", str(len(suite)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("time", f"{sum(one.seconds for one in run.of(runtime.label)):.3f}")
        suite.set("timestamp", run.made.removesuffix("Z"))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _add(suite: ET.Element, run: Run, one: Outcome) -> None:
    section, _, name = one.case.partition("::")
    runtime = one.runtime.replace(".", "_").replace(" ", "-")
    case = ET.SubElement(
        suite, "testcase", classname=f"{runtime}.{section}", name=name, time=f"{one.seconds:.3f}"
    )
    properties = ET.SubElement(case, "properties")
    for clause in one.clauses:
        ET.SubElement(properties, "property", name="clause", value=clause)
    if run.reason(one):
        reason = f"known deviation: {run.reason(one)}"
        ET.SubElement(case, "skipped", message=_fit(reason)).text = _fit(one.text)
    elif one.bad:
        tag = "error" if one.status == ERROR else "failure"
        first = one.text.partition("\n")[0]
        ET.SubElement(case, tag, message=_fit(first)).text = _fit(one.text)
    elif one.status == SKIP:
        ET.SubElement(case, "skipped", message=_fit(one.message))
    if run.change(one):
        ET.SubElement(case, "system-out").text = f"changed: {run.change(one)}"


def _fit(text: str) -> str:
    return UNFIT.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
