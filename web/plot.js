// What the report draws with. Add a name here and run `make charts` to use more of the library.
export { axisX, barX, dot, plot, rect, ruleX, text, tickX } from "@observablehq/plot";
