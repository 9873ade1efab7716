# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Build settings as skylib 1.8 has them; in Debian's they have no make_variable."""

BuildSettingInfo = provider(fields = ["value"])

def _setting_impl(ctx):
    return [BuildSettingInfo(value = ctx.build_setting_value)]

def _string_flag_impl(ctx):
    value = ctx.build_setting_value
    if ctx.attr.values and value not in ctx.attr.values:
        fail("{}: '{}' is none of {}".format(ctx.label, value, ctx.attr.values))
    providers = [BuildSettingInfo(value = value)]
    if ctx.attr.make_variable:
        providers.append(platform_common.TemplateVariableInfo({ctx.attr.make_variable: value}))
    return providers

bool_flag = rule(implementation = _setting_impl, build_setting = config.bool(flag = True))
string_flag = rule(
    implementation = _string_flag_impl,
    attrs = {
        "make_variable": attr.string(),
        "values": attr.string_list(),
    },
    build_setting = config.string(flag = True),
)
string_list_flag = rule(implementation = _setting_impl, build_setting = config.string_list(flag = True))
