"""Spanish."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

SPANISH = lexicon(
    "es",
    closed="""
    yo tú él ella usted nosotros nosotras vosotros ellos ellas ustedes me te se nos os le les lo la los las el un una
    unos unas mi mis tu tus su sus nuestro nuestra nuestros vuestro vuestra este esta estos estas ese esa esos esas
    esto eso todo toda todos todas algo alguien que quien soy eres es somos son era eran fue fueron estoy está estás
    estamos están estaba estado ser estar he has ha hemos han había haber hay tengo tiene tenía y e o u de del a al en
    con por para sobre muy tan más también ya ahora como así cada
    """,
    content="""
    ayudado ayudó respondido funciona funcionó sirvió entendido exactamente completamente totalmente absolutamente
    realmente rápido rápida rápidamente hoy mucho mucha muchas muchos mil hola adiós buen buena bueno buenas buenos
    amable amables útil útiles eficaz genial perfecto perfecta perfectamente excelente maravilloso maravillosa
    estupendo estupenda fantástico fantástica fenomenal súper super vale ok bien sí gracias agradezco agradecido
    agradecida contento contenta feliz satisfecho satisfecha encantado encantada aliviado aliviada resuelto resuelta
    resolvió solucionado solucionada solucionó arreglado arreglada arregló llegado llegó recibido recibí fin día días
    tarde tardes sido
    """,
    topics="""
    problema problemas asunto pregunta preguntas pedido cuenta ayuda respuesta respuestas solución soluciones soporte
    servicio equipo información explicación factura pago reembolso paquete entrega tiempo paciencia trabajo
    """,
    troubles="problema problemas asunto pregunta preguntas",
    cures="""
    resuelto resuelta resolvió solucionado solucionada solucionó arreglado arreglada arregló llegado llegó recibido
    recibí funciona ayudado ayudó
    """,
    acts="""
    siga siguientes instrucciones abra pulse haga clic vaya reinicie elija ajustes menú página botón reembolsado
    enviado transfiero transferido supervisor especialista compañero llame ambulancia emergencias siento
    """,
    advising="""
    un una el la los las usted su yo mi es esto a al para y por favor ahora inmediatamente ya urgente urgencia
    emergencia debe tiene que llame llamar vaya sí recomiendo aconsejo necesario necesaria todos
    """,
    feelings="contento contenta feliz satisfecho satisfecha encantado encantada aliviado aliviada",
    own="yo estoy estamos soy he",
    asked="qué cómo cuándo dónde quién quiénes cuál cuáles cuánto cuánta adónde",
    others="""
    él ella ellos ellas alguien quien que más como así o u cada era eran tan haber tenía os había
    """,
    harmless="""
    todo claro; buen día; que tenga un buen día; buenas noches; eso era lo que necesitaba; eso es lo que necesitaba;
    eso es justo lo que necesitaba; eso es todo; es todo; nada más; no eso es todo; no tengo más preguntas;
    no tengo más dudas; ninguna pregunta más; sin problema; ningún problema; no hay problema; no necesito nada más
    """,
    courtesies="""
    de nada; con mucho gusto; a la orden; adiós; hasta luego; buen día; que tenga un buen día; gracias;
    muchas gracias; hola; buenas tardes
    """,
    marks={
        Mark.NEGATION: """
        no; nunca; jamás; nada; nadie; ningún; ninguna; ninguno; tampoco; ni; sin; apenas; poco; menos; imposible;
        falló; falla; fallado; fallo; lejos de; todo menos; contrario; dudo; duda; falta; en vez; en lugar; contra;
        cero; evite; evitar; deje; dejen; incapaz; negativo; niego; negó
        """,
        Mark.CONDITION: "si; cuando; siempre que; en caso; a menos que; salvo; sino; mientras; con tal; en cuanto",
        Mark.WISH: """
        espero; esperamos; esperaba; ojalá; deseo; desearía; quisiera; querría; gustaría; quiero; sería; estaría;
        habría; hubiera; hubiese; fuera; de antemano; antemano; necesito; necesitamos; quieren; pretendo
        """,
        Mark.CONTRAST: """
        pero; sin embargo; aunque; no obstante; a pesar; pese; mas; excepto; solo; sólo; solamente; todavía; aún;
        al menos; en cambio; mientras que; lástima; lamentablemente; desgraciadamente; sigue; siguen; por lo menos
        """,
        Mark.REPORT: """
        dijo; dijeron; dice; dicen; decir; dicho; dijiste; dices; diciendo; afirma; afirman; prometió; prometieron;
        promete; según; supuestamente; asegura; aseguró; creía; pensaba; pensé; creo; llaman; llamas; oí; pretende;
        cree; creen; preguntó; alega; presunto
        """,
        Mark.HEDGE: """
        y mi; y mis; y el; y la; una vez; estaba; estábamos; quizás; quizá; tal vez; posiblemente; probablemente;
        podría; podrían; puede; pueden; parece; parecía; casi; medio; parcialmente; algo; a veces; más o menos;
        aproximadamente; intento; intente; intentar; intentado; voy; va; vamos; van; será; serán; supongo; imagino;
        considere
        """,
        Mark.DUTY: "tiene que; tienen que; tengo que; hay que; debe; deben; debería; deberían",
        Mark.DELAY: """
        mañana; luego; más tarde; hasta; pronto; esperar; espere; esperando; lunes; martes; miércoles; jueves;
        viernes; sábado; domingo; próxima; próximo; semana que viene; después; algún día; de momento; por ahora
        """,
        Mark.IRONY: """
        para usted; para ustedes; para ti; para vosotros; bravo; felicidades; enhorabuena; claro que sí; por supuesto;
        como siempre; qué; vaya; menudo; menuda; jaja; jajaja; lol; wow; sí claro; ja; obviamente; gracias a; encima;
        otra vez; de nuevo; cómo no; típico; anda
        """,
        Mark.RETRACTION: """
        olvide; olvídelo; olvida; olvídalo; olvídate; ignore; ignora; cancele; cancela; equivoqué; equivocado; error;
        innecesario; no hace falta; ya no; en realidad; retiro; corrección; falsa alarma; cambié; mejor no; déjelo;
        déjalo
        """,
    },
)
