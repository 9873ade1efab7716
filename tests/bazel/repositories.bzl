# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The repositories of two source trees, and of Bazel's constraint values as IREE needs them."""

def _amdgpu_rs_tree_impl(ctx):
    root = ctx.path(Label("@//:WORKSPACE")).dirname.dirname.dirname
    for entry in root.readdir():
        if entry.basename not in [".git", "build", "target"]:
            ctx.symlink(entry, entry.basename)
    ctx.file("WORKSPACE")

amdgpu_rs_tree = repository_rule(
    implementation = _amdgpu_rs_tree_impl,
    doc = "The project that this workspace is in.",
    local = True,
)

# Links to IREE's files. Before version 5, select() takes no constraint values:
# its keys become the config_settings of stand_ins/platforms_selected, which
# stand for the same.
_LINK_IREE = """
set -eu
for entry in BUILD.bazel build_tools runtime; do cp -rs "$1/$entry" .; done
grep -RlE '"@platforms//(os|cpu):[a-z0-9]+": ' --include=BUILD.bazel . |
  xargs sed -i -E 's#"@platforms//(os|cpu):([a-z0-9]+)": #"@platforms_selected//:\\2": #'
"""

def _iree_tree_impl(ctx):
    tree = ctx.os.environ.get("IREE_SOURCE_DIR")
    if not tree:
        fail("pass --repo_env=IREE_SOURCE_DIR=<IREE checkout>")
    result = ctx.execute(["sh", "-c", _LINK_IREE, "sh", tree])
    if result.return_code:
        fail(result.stderr)
    ctx.file("WORKSPACE")

iree_tree = repository_rule(
    implementation = _iree_tree_impl,
    doc = "The runtime of the IREE tree $IREE_SOURCE_DIR.",
    environ = ["IREE_SOURCE_DIR"],
)

_PLATFORMS = "/usr/share/bazel/platforms/"

_NEWER = {
    "BUILD": """
constraint_setting(name = "not_compatible")
constraint_value(
    name = "incompatible",
    constraint_setting = ":not_compatible",
    visibility = ["//visibility:public"],
)
""",
    "cpu/BUILD": """
[constraint_value(name = name, constraint_setting = ":cpu") for name in ["wasm32", "wasm64"]]
""",
    "os/BUILD": """
constraint_value(name = "emscripten", constraint_setting = ":os")
""",
}

def _debian_platforms_impl(ctx):
    for file, newer in _NEWER.items():
        ctx.file(file, ctx.read(_PLATFORMS + file) + newer)
    ctx.file("WORKSPACE")

debian_platforms = repository_rule(
    implementation = _debian_platforms_impl,
    doc = "Debian's constraint values and those that IREE names and Debian lacks.",
)
