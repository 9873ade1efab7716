# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The build setting that chooses code objects of the device library."""

load(":selectors.bzl", "DEVICE_BINARY_SELECTORS")

def nearest_selectors(name):
    """The known selectors that have the longest beginning in common with `name`, at most eight."""
    for length in range(len(name), -1, -1):
        beginning = name[:length].lower()
        found = [known for known in DEVICE_BINARY_SELECTORS if known.lower().startswith(beginning)]
        if found:
            return found[:8]
    fail("no selector begins with nothing")

def _device_binary_targets_impl(ctx):
    for name in ctx.build_setting_value:
        if name not in DEVICE_BINARY_SELECTORS:
            fail("{}: `{}` selects no target of the device library; the nearest names are {}; device-binaries/README.md lists all".format(
                ctx.label,
                name,
                ", ".join(nearest_selectors(name)),
            ))
    return [platform_common.TemplateVariableInfo({
        "DEVICE_BINARY_TARGETS": ",".join(ctx.build_setting_value),
    })]

device_binary_targets = rule(
    implementation = _device_binary_targets_impl,
    build_setting = config.string_list(flag = True),
    doc = "Selectors, with commas between them; a genrule that names it in `toolchains` has them as $(DEVICE_BINARY_TARGETS).",
)
