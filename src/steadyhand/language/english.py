"""English."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

ENGLISH = lexicon(
    "en",
    closed="""
    i me my mine myself we us our ours you your yours yourself u ur he him his she her hers it its they them their
    this that these those the a an some any all both each every everything everyone everybody anything anyone someone
    something who whose which what where when why how here there am is are was were be been being have has had do does
    did can could will would shall should may might must i'm i've i'll i'd we're we've we'll we'd you're you've you'll
    you'd it's it'll it'd he's she's they're they've they'll that's that'll there's here's what's who's how's let's im
    ive thats and or so as at by for from in into of on to up out with about after before over than then too also just
    only very really quite now again
    """,
    content="""
    problem problems issue issues question questions order account help helped helps answer answered answers solution
    solutions work works worked working support service team assistance information info explanation explained advice
    refund payment invoice bill ticket case request booking card password email login device router phone app website
    subscription delivery package steps step way time patience got get gets getting back know understand understood
    see need needed wanted want looking exactly right correct correctly clear completely totally fully absolutely
    extremely truly definitely certainly finally already immediately quickly quick fast today much many lot lots more
    most whole everything's guys man mate sir madam dear hello hi hey bye goodbye good nice great excellent perfect
    perfectly wonderful awesome fantastic amazing brilliant lovely helpful kind friendly useful fine ok okay alright
    cool super well best better yes yeah yep yay wow oh ah aha day evening morning night weekend thank thanks thankyou
    thx ty cheers appreciate appreciated grateful thankful happy glad pleased satisfied delighted relieved resolved
    solved fixed sorted done set settled cleared confirmed received arrived found made makes did sense job taking care
    love enjoy like please follow these open click press go restart select enter choose tap try settings menu button
    page first second third next issued refunded corrected reset updated cancelled arranged sent replaced cancel
    connect connecting connected transfer transferring transferred escalating escalate escalated specialist supervisor
    manager agent human colleague department call emergency services sorry apologize apologise apologies hear that's
    frustrating
    """,
    asked="how why when where who what which whom whose",
    marks={
        Mark.NEGATION: """
        not; no; never; neither; nor; none; nothing; nobody; nowhere; noone; without; hardly; barely; scarcely;
        rarely; seldom; cannot; cant; dont; doesnt; didnt; isnt; wasnt; arent; werent; wont; wouldnt; couldnt;
        shouldnt; havent; hasnt; hadnt; aint; nope; nah; nay; far from; anything but; opposite; so much for; unable;
        impossible; fail; fails; failed; failing; failure; refuse; refused; refuses; lack; lacks; lacked; lacking;
        doubt; doubts; doubted; doubtful; deny; denies; denied; less; least; little; few; zero; nil; instead of;
        rather than; yet to; avoid; avoids; avoided; avoiding; stop; stopped; stops; stopping; quit; cease; refrain;
        against; hold off; holding off; nought; naught; zilch; unlikely; unnecessary; needless; unlike; non; minus;
        n't; nt; contraindicated; inadvisable; prohibited; forbidden; withhold; decline; declined; except; excluding;
        exclude; too early; too soon; premature; overkill; overreaction; skip; omit; forgo
        """,
        Mark.CONDITION: """
        if; unless; whether; provided; providing; assuming; suppose; supposing; otherwise; in case; as long as;
        as soon as; once; whenever; when; depends; depending; depend; were it; had i; had you; only if; even if; else
        """,
        Mark.WISH: """
        hope; hopes; hoped; hoping; hopefully; wish; wishes; wished; wishing; would like; would love; i'd like;
        i'd love; if only; looking forward; look forward; can't wait; expect; expecting; expected; want; wants;
        wanted; would be; would have been; in advance; dream; ideally; supposed
        """,
        Mark.CONTRAST: """
        but; however; although; though; nevertheless; nonetheless; whereas; except; yet; still; despite; anyway;
        anyways; regardless; while; albeit; on the other hand; other than; apart from; even so; instead; too bad;
        only; just not; at least; rather; until; till
        """,
        Mark.REPORT: """
        say; says; said; saying; tell; tells; told; telling; claim; claims; claimed; claiming; promise; promised;
        promises; promising; state; states; stated; stating; assure; assured; assures; insist; insists; insisted;
        pretend; pretends; pretended; allegedly; apparently; supposedly; reportedly; according; call it; call this;
        call that; called it; thought; assumed; believed; figured; heard; think; thinks; thinking; believe; believes;
        guess; reckon; bet; marked; mark; ask; asks; asked; asking; quote; quoted; mention; mentioned; argue; argued;
        recommend by; keeps saying; they call; so called; so-called; read that; rumour; rumor; advertised; suggested;
        suggests
        """,
        Mark.HEDGE: """
        might; may; maybe; perhaps; possibly; probably; could; seems; seem; seemed; appears; appear; appeared;
        consider; considering; considered; sort of; kind of; somewhat; almost; nearly; partly; partially; half;
        halfway; mostly; temporarily; usually; sometimes; often; presumably; potentially; likely; roughly; should;
        would; ought; try; trying; tried; tries; some; something like; more or less; ish; unsure; uncertain;
        sure whether; optional; optionally; option; options; alternatively; used to; was going to; going to; gonna;
        will; shall; i'll; we'll; you'll; it'll; they'll; he'll; she'll; that'll; need to; needs to; attempt;
        attempted; supposedly; feel free
        """,
        Mark.DELAY: """
        later; tomorrow; until; till; eventually; soon; wait; waits; waiting; waited; postpone; postponed; defer;
        delay; delayed; delaying; next week; next month; next year; next time; monday; tuesday; wednesday; thursday;
        friday; saturday; sunday; in the morning; in a few days; first thing; some day; someday; one day;
        in due course; for now; not yet; at some point; in the meantime; await; awaiting; pending; after the weekend;
        overnight; keep until; in a while; hold on; when convenient; no rush; no hurry
        """,
        Mark.IRONY: """
        yeah right; as if; sure thing; yeah sure; oh great; oh wow; oh wonderful; oh perfect; oh joy; oh sure;
        oh yeah; wow; bravo; congrats; congratulations; slow clap; my foot; my ass; my arse; lol; lmao; rofl; haha;
        hahaha; ha; heh; pfft; ugh; sigh; whatever; as usual; as always; typical; just what; just great; just perfect;
        just wonderful; just fantastic; just awesome; just lovely; of course; obviously; clearly; genius; sarcasm; /s;
        ironically; ironic; thanks to you; thank to; thanks to; real helpful; real great; way to go; big surprise;
        what a surprise; shocker; nice try; good luck; another; yet another; about as; as helpful as; so helpful;
        how helpful; how nice; how wonderful; how lovely; i love how; i love when; love how; gee; oh boy; go figure
        """,
        Mark.RETRACTION: """
        forget; ignore; disregard; never mind; nevermind; scratch that; strike that; take that back; take it back;
        takes back; took back; second thought; second thoughts; was wrong; were wrong; mistaken; my mistake;
        overreacted; correction; no longer; no need; withdraw; withdrawn; retract; retracted; rescind; revoke; cancel;
        cancelled; canceled; skip; drop; unnecessary; needn't; change my mind; changed my mind; overcautious;
        stand down; call off; called off; undo; reversed; hold that; overstated; actually; after all; on reflection;
        false alarm; leave it; let it go; leave out; relax; calm down; stay home; stay put; keep until; sleep on it
        """,
    },
)
