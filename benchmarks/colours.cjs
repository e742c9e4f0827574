// Loaded before Playwright's driver. That sends emulation.setMediaFeaturesOverride for every context, which Firefox ESR
// does not know (it has its own colours); it gets a command without an effect instead.
const { _extensions } = require("node:module");
const load = _extensions[".js"];
_extensions[".js"] = (module, path) => {
  const compile = module._compile;
  module._compile = (text, ...more) =>
    compile.call(module, text.replaceAll('"emulation.setMediaFeaturesOverride"', '"session.status"'), ...more);
  load(module, path);
};
