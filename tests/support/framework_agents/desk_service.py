"""A service with OpenTelemetry's own exporter, configured by the usual variables. Each request names its shop."""

import json
import re
import sys

import uvicorn
from fastapi import FastAPI, Request
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from shop import call

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("desk")
app = FastAPI()


def use(tool: str, number: str, shop: str) -> str:
    with tracer.start_as_current_span(f"execute_tool {tool}") as span:
        span.set_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.arguments": json.dumps({"number": number}),
            }
        )
        result = call(tool, {"number": number}, shop)
        span.set_attribute("gen_ai.tool.call.result", result)
        return result


@app.post("/chat")
def chat(body: dict, request: Request) -> dict:
    number = re.search(r"[A-Z]-\d+", body["message"])[0]
    shop = "" if "--offline" in sys.argv else request.headers["x-shop"]
    names = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Desk"}
    with tracer.start_as_current_span("invoke_agent Desk", context=extract(request.headers), attributes=names):
        if "--idle" not in sys.argv:
            use("find_order", "A-9999" if "--confused" in sys.argv else number, shop)
        if "--generous" in sys.argv:
            use("refund", number, shop)
    return {"data": {"text": f"I am looking into order {number}."}}


@app.get("/ready")
def ready() -> str:
    return "yes"


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
