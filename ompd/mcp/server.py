"""The protocol over standard input and output, by the SDK of the Model Context Protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

import ompd
from ompd.errors import OmpdError
from ompd.mcp.allowed import AllowedTargets
from ompd.mcp.marking import Limits, marked
from ompd.mcp.pages import BadCall, text_of
from ompd.mcp.tools import INSTRUCTIONS, TOOLS, Toolbox

_ERROR = Limits(1, 1000)


def serve(targets: AllowedTargets) -> None:
    """Answer the requests on standard input until it ends."""
    asyncio.run(_serve(Toolbox(targets)))


async def _serve(toolbox: Toolbox) -> None:
    async def list_tools(_context: Any, _parameters: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_declared())

    async def call_tool(_context: Any, parameters: Any) -> types.CallToolResult:
        # The calls are answered one after the other, in the main thread: only it may trace a process.
        return _called(toolbox, parameters.name, parameters.arguments or {})

    server = Server(
        "ompd",
        version=ompd.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _declared() -> list[Any]:
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    return [
        types.Tool(
            name=tool.name,
            description=tool.help,
            input_schema=tool.input_schema(),
            output_schema=tool.output_schema(),
            annotations=hints,
        )
        for tool in TOOLS
    ]


def _called(toolbox: Toolbox, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    try:
        page = toolbox.call(name, arguments)
    except BadCall as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except OmpdError as error:
        hint = f"; {error.hint}" if error.hint else ""
        text = text_of({"error": marked(f"{error}{hint}", _ERROR)})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
    content = [types.TextContent(type="text", text=text_of(page))]
    return types.CallToolResult(content=content, structured_content=page)
